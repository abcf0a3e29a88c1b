"""What a process does at its exit: whom it tells, in which order, and what is printed."""

from __future__ import annotations

import os
import sys
import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from multinode_image.hooks import at_exit
from multinode_image.hooks.ends import diagnose
from multinode_image.hooks.job import reason
from multinode_image.hooks.job.one_job import Fault
from multinode_image.hooks.model import one_model
from multinode_image.settings import TRAINING

DISTRIBUTED = "torch.distributed.distributed_c10d"

FAULT = Fault("a fact", "a value", "a remedy")
PACKAGE = "multinode_image.hooks"


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Begin without an error, and return what is handed on to the agent of torchrun."""
    handed = list[Any]()
    monkeypatch.setattr(reason, "leave_reason", lambda parts, _: handed.append([*parts]))
    monkeypatch.setattr(at_exit, "STATUS", [])
    monkeypatch.delattr(sys, "last_value", raising=False)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return handed


HERE = {TRAINING: str(os.getpid())}


@pytest.mark.parametrize(("environ", "count"), [(HERE, 1), ({TRAINING: "7"}, 0), ({}, 0)])
def test_only_the_rank_itself_hands_on_why_it_ends(handed: list[Any], environ: dict[str, str], count: int) -> None:
    at_exit.hand_on(["a", "b"], environ)

    assert handed == [["a", "b"]] * count


@pytest.mark.parametrize("gone", [False, True])
def test_files_are_kept_for_what_is_imported_at_the_end(
    handed: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gone: bool
) -> None:
    monkeypatch.setattr(at_exit, "RESERVED", [])
    at_exit.reserve_files()
    kept = [*at_exit.RESERVED]
    assert len(kept) == 2 and all(os.fstat(file) for file in kept)
    places, fault = list[Any](), None if gone else FAULT

    def explain(error: BaseException, place: Any) -> Any:
        places.append(place)
        return fault and SimpleNamespace(fact="a fact", value="a value", remedy="a remedy", finding="a fact: a value")

    monkeypatch.setattr(diagnose, "explain", explain)
    waits = {} if gone else {f"{PACKAGE}.groups.waits": SimpleNamespace(describe_others=lambda: "rank 1 waits")}
    with mock.patch.object(sys, "modules", {**sys.modules, f"{PACKAGE}.groups.waits": None, **waits}):
        at_exit.say_error(ValueError(), HERE)

    assert at_exit.RESERVED == [] and handed == ([] if gone else [["a fact", "a value", "a remedy"]])
    for file in kept:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)
    assert [(place.environ, place.others(), place.refused()) for place in places] == [
        (HERE, "" if gone else "rank 1 waits", None)
    ]
    assert bool(capsys.readouterr().err) is not gone


def test_what_a_program_ends_with_is_remembered(handed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    left = list[Any]()
    monkeypatch.setattr(sys, "exit", left.append)
    at_exit.watch_status()

    for status in (3, None):
        sys.exit(status)
    assert at_exit.STATUS == left == [3, None]


@pytest.mark.parametrize(
    ("status", "error", "modules", "finishes", "says"),
    [
        ([], None, [DISTRIBUTED], True, True),
        ([0], None, [DISTRIBUTED], True, True),
        ([1], None, [DISTRIBUTED], False, False),
        ([1, None], None, [DISTRIBUTED], True, True),
        ([], ValueError(), [DISTRIBUTED], False, "error"),
        ([], KeyboardInterrupt(), [DISTRIBUTED], False, False),
        ([], None, [f"{PACKAGE}.model.one_model"], True, False),
        ([], None, [], False, False),
    ],
)
def test_what_is_said_at_the_end_depends_on_how_it_is(
    handed: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: list[Any],
    error: BaseException | None, modules: list[str], finishes: bool, says: bool | str,
) -> None:  # fmt: skip
    done = list[str]()
    monkeypatch.setattr(at_exit, "STATUS", status)
    if error is not None:
        monkeypatch.setattr(sys, "last_value", error, raising=False)
    monkeypatch.setattr(at_exit, "finish", lambda *_: done.append("finish"))
    monkeypatch.setattr(at_exit, "say_job", lambda *_: done.append("job"))
    monkeypatch.setattr(at_exit, "describe_job", lambda *_: "a job")
    monkeypatch.setattr(at_exit, "say_error", lambda *_: done.append("error"))
    monkeypatch.setattr(at_exit, "keep_groups", lambda _: done.append("groups"))
    watcher = SimpleNamespace(stop=lambda: done.append("stop"))
    loaded: dict[str, Any] = {name: SimpleNamespace(is_initialized=lambda: False) for name in modules}
    loaded[f"{PACKAGE}.job.one_job"] = SimpleNamespace(TOLD=[FAULT])
    loaded[f"{PACKAGE}.groups.waits"] = watcher
    loaded[f"{PACKAGE}.ends.ending"] = SimpleNamespace(LAST=["the last line"])
    if f"{PACKAGE}.model.one_model" in modules:
        loaded[f"{PACKAGE}.model.one_model"] = watcher

    at_exit.end(loaded, HERE)

    ends = ["stop", "groups"] if DISTRIBUTED in modules else []
    said = ["error"] if says == "error" else ["job"] if says else []
    assert done == [*["finish"] * finishes, *said, *ends]
    assert handed == [list(FAULT)]
    assert capsys.readouterr().err == "multinode: the last line\n" * bool(ends)


@pytest.mark.parametrize("fault", [None, FAULT, "fails"])
def test_a_process_that_has_trained_a_model_of_its_own_ends_with_an_error(
    handed: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: Any
) -> None:
    ended = list[int]()

    def finish(*_: object) -> Any:
        if fault == "fails":
            raise ValueError
        return fault

    monkeypatch.setattr(one_model, "finish", finish)
    monkeypatch.setattr(os, "_exit", ended.append)
    at_exit.finish({}, HERE)

    assert ended == [2] * (fault is FAULT) and handed == [list(FAULT)] * (fault is FAULT)
    err = capsys.readouterr().err
    assert ("a fact" in err) is (fault is FAULT) and ("one_model.finish" in err) is (fault == "fails")


@pytest.mark.parametrize(
    ("said", "lacks"), [(None, False), ("can't start new thread", True), ("can't create new thread at exit", False)]
)
def test_a_thread_that_cannot_be_started_is_no_interrupt(
    monkeypatch: pytest.MonkeyPatch, said: str | None, lacks: bool
) -> None:
    import _thread

    def start(*_: object) -> None:
        if said:
            raise RuntimeError(said)

    monkeypatch.setattr(_thread, "start_new_thread", start)
    assert at_exit.lacks_thread() is lacks


@pytest.mark.parametrize(("seconds", "worked"), [(0.5, False), (1.5, True)])
def test_work_of_children_is_seen_by_the_time_that_they_took(
    monkeypatch: pytest.MonkeyPatch, seconds: float, worked: bool
) -> None:
    import resource

    monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_utime=seconds))
    assert at_exit.has_worked_by_children() is worked
