"""How `launch` waits for its hosts, and what becomes of the job where hydra ends; neither ssh nor hydra is started."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image import timeouts
from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.hooks.job.word import WORD
from multinode_image.mpi import launch
from multinode_image.mpi.launch import SILENT, UNTRIED, Access
from multinode_image.mpi.rank import SUPERVISED
from tests.support.clocks import Clock

LOST = 255


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(launch, "time", clock)
    return clock


ACCESS = Access("config", 2222, {"A": "1"}, Clock.now + 2)


@pytest.mark.parametrize(
    ("code", "err", "out", "said"),
    [
        (0, "a warning", "", ""),
        (255, "debug\nPermission denied \n", "", "Permission denied"),
        (1, "", "no shell\n", "no shell"),
        (5, " ", "\n", "exit code 5"),
        (None, "", "", SILENT),
    ],
)
@pytest.mark.parametrize(("left", "seconds"), [(2.0, 2.0), (0.1, 0.5), (-9.0, 0.5), (1e9, 86400.0)])
def test_a_login_fails_in_the_words_of_ssh(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, code: int | None, err: str, out: str, said: str, left: float,
    seconds: float,
) -> None:  # fmt: skip
    asked = list[Any]()

    def run(words: list[str], **options: Any) -> Any:
        asked.append((words, options))
        if code is None:
            raise subprocess.TimeoutExpired(words, 1)
        return subprocess.CompletedProcess(words, code, out, err)

    monkeypatch.setattr(launch, "subprocess", SimpleNamespace(**{**vars(subprocess), "run": run}))

    assert launch.try_ssh("pod1", ACCESS._replace(deadline=clock.now + left)) == said
    silent = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace", "check": False}
    options = {**silent, "timeout": pytest.approx(seconds), "env": {"A": "1"}}
    assert asked == [(["ssh", "-F", "config", "pod1", "true"], options)]


@pytest.mark.parametrize(
    ("answers", "fault", "tries"),
    [
        ([""], "", 1),
        (["refused", ""], "", 2),
        (["refused", "denied"] + ["denied"] * 9, "denied", 4),
        (["refused", SILENT, SILENT, SILENT, SILENT], "refused", 4),
        ([SILENT] * 9, SILENT, 4),
    ],
)
def test_a_host_is_tried_until_it_answers_and_keeps_what_it_last_said(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, answers: list[str], fault: str, tries: int
) -> None:
    coming, count, faults = iter(answers), [0], {"pod1": UNTRIED}

    def answer(*_: object) -> str:
        count[0] += 1
        return next(coming)

    monkeypatch.setattr(launch, "try_ssh", answer)
    launch.try_host("pod1", ACCESS, faults)

    assert (faults, count[0]) == ({"pod1": fault}, tries)


@pytest.mark.parametrize(
    ("first", "last", "notes", "refused"),
    [("", "", [], None), ("pod1 (no answer yet)", "", ["waiting for pod1 (no answer yet)"], None),
     ("pod1 (a), pod2 (b)", "pod2 (c)", ["waiting for pod1 (a), pod2 (b)"], "pod2 (c)")],
)  # fmt: skip
def test_hosts_that_do_not_answer_are_named_once_and_then_refused(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, first: str, last: str, notes: list[str], refused: str | None
) -> None:
    said, until, answers = list[str](), list[float](), iter([first, last])

    def answer(host: str, _: object, faults: dict[str, str]) -> None:
        faults[host] = "" if threading.current_thread().daemon else "would hold Python at its end"

    monkeypatch.setattr(launch, "try_host", answer)
    monkeypatch.setattr(launch, "print_note", said.append)

    def wait(faults: Mapping[str, str], threads: list[Any], end: float) -> str:
        for thread in threads:
            thread.join()
        assert faults == {"pod1": "", "pod2": ""}
        until.append(end)
        return next(answers)

    monkeypatch.setattr(launch, "list_silent", wait)
    access = ACCESS._replace(deadline=110.0)
    if refused:
        with pytest.raises(Refusal) as caught:
            launch.wait_for_hosts(["pod1", "pod2"], access, 10)
        assert (caught.value.value, caught.value.code) == (refused, EXIT_OUTSIDE)
        assert "10 s" in caught.value.finding and "port 2222" in caught.value.remedy
    else:
        launch.wait_for_hosts(["pod1", "pod2"], access, 10)
    assert said == notes and until == pytest.approx([102.0, 110.1][: 1 + bool(first)])
    assert launch.list_silent is wait


def test_who_is_silent_is_listed_with_the_reason(clock: Clock) -> None:
    joined = list[float]()
    thread: Any = SimpleNamespace(join=joined.append)

    assert launch.list_silent({"a": "", "b": "denied", "c": UNTRIED}, [thread], 103.0) == f"b (denied), c ({UNTRIED})"
    assert launch.list_silent({"a": ""}, [thread], 99.0) == ""
    assert joined == [3.0, 0.0]


class Hydra:
    """A hydra that ends with a code, once signals have come."""

    def __init__(self, code: int, signals: list[int], handlers: dict[int, Any], log: list[Any]) -> None:
        self.code, self.signals, self.handlers, self.log = code, signals, handlers, log

    def __call__(self, argv: list[str], env: Mapping[str, str]) -> Hydra:
        self.log.append((argv, dict(env)))
        return self

    def __enter__(self) -> Hydra:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self) -> int:
        for number in self.signals:
            self.handlers[number](number, None)
        return self.code

    def terminate(self) -> None:
        self.log.append("terminate")

    def kill(self) -> None:
        self.log.append("kill")


TERM, INT, ALARM = signal.SIGTERM, signal.SIGINT, signal.SIGALRM
TIMER = ("timer", timeouts.RANKS_END)


@pytest.mark.parametrize(
    ("code", "signals", "expected", "done", "said"),
    [
        (0, [], 0, [], "trained"),
        (3, [], 3, [], ""),
        (-9, [], 137, [], ""),
        (LOST, [], EXIT_OUTSIDE, [], "hydra has lost a node"),
        (-signal.SIGPIPE, [], EXIT_OUTSIDE, [], "hydra has lost a node"),
        (0, [TERM], 143, [TIMER, "terminate"], ""),
        (LOST, [INT, TERM], 130, [TIMER, "terminate", "terminate"], ""),
        (1, [TERM, ALARM], 143, [TIMER, "terminate", "kill"], ""),
    ],
)
def test_the_code_of_a_job_is_that_of_its_first_rank_or_of_a_signal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int, signals: list[int], expected: int,
    done: list[Any], said: str,
) -> None:  # fmt: skip
    handlers, log = dict[int, Any](), list[Any]()
    monkeypatch.setattr(signal, "signal", lambda number, handler: handlers.update({number: handler}))
    monkeypatch.setattr(signal, "setitimer", lambda _, seconds: log.append(("timer", seconds)))
    monkeypatch.setattr(launch, "offer_place", lambda environ: environ.setdefault(WORD, "here"))
    monkeypatch.setattr(launch, "take_last_line", lambda environ: ["trained"] if environ[WORD] == "here" else [])
    monkeypatch.setattr(launch, "subprocess", SimpleNamespace(Popen=Hydra(code, signals, handlers, log)))
    environ = {"A": "1", WORD: "of another job", launch.OF_HYDRA[0]: "x"}

    assert launch.run_hydra(["mpiexec"], environ) == expected
    assert log == [(["mpiexec"], {"A": "1", WORD: "here", SUPERVISED: "1"}), *done, ("timer", 0)]
    assert {*handlers} == {TERM, INT, signal.SIGHUP, ALARM}
    err = capsys.readouterr().err
    assert said in err and bool(err) is bool(said)
