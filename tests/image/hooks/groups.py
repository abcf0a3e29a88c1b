"""How groups form and how long they wait, what a rank leaves while it joins one, and how many threads it has."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from transformers import TrainingArguments, training_args

from multinode_image.hooks.at_exit import DISTRIBUTED, keep_groups
from multinode_image.hooks.compute import threads
from multinode_image.hooks.groups import ddp_timeout, interface
from multinode_image.hooks.groups.group_of_one import PLACE, serve_alone
from multinode_image.hooks.job import word
from multinode_image.settings import SIZE

RENDEZVOUS: Any = sys.modules["torch.distributed.rendezvous"]  # the package has a function of this name


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be one process, of which the entrypoint has said so, whose group ends with the test."""
    for name in PLACE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(SIZE, "1")
    monkeypatch.setitem(RENDEZVOUS._rendezvous_handlers, "env", RENDEZVOUS._rendezvous_handlers["env"])
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_script_that_is_alone_forms_a_group_and_no_library_sees_a_rank(alone: None) -> None:
    with pytest.raises(ValueError, match="RANK"):
        dist.init_process_group("gloo")

    serve_alone(RENDEZVOUS)
    dist.init_process_group("gloo")

    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    assert not PLACE.keys() & os.environ.keys()


def test_a_place_is_taken_back_where_torch_fails(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_PORT", "no number")
    serve_alone(RENDEZVOUS)

    with pytest.raises(ValueError, match="no number"):
        dist.init_process_group("gloo")

    assert PLACE.keys() & os.environ.keys() == {"MASTER_PORT"}


@pytest.mark.parametrize("fails", [True, False])
def test_a_rank_leaves_word_while_it_waits_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool, alone: None
) -> None:
    place, seen = tmp_path / "words", list[dict[str, str]]()
    place.mkdir()
    for name, value in {word.WORD: str(place), "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    meet = distributed_c10d.rendezvous

    def look_and_meet(*words: Any, **options: Any) -> Iterator[Any]:
        seen.append(word.list_words(os.environ, word.JOINING))
        if fails:
            raise TimeoutError
        yield from meet(*words, **options)

    monkeypatch.setattr(distributed_c10d, "rendezvous", look_and_meet)
    monkeypatch.setattr(distributed_c10d, "init_process_group", distributed_c10d.init_process_group)
    word.watch_groups(distributed_c10d)

    with pytest.raises(TimeoutError) if fails else nullcontext():
        distributed_c10d.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)

    assert seen == [{"0": ""}]
    assert word.list_words(os.environ, word.JOINING) == {}


def watch_times(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Watch groups as in the image, and return what will have been given to torch as their times."""
    given, form = list[Any](), distributed_c10d.init_process_group

    def look_and_form(*words: Any, **options: Any) -> None:
        given.append(options.get("timeout"))
        form(*words, **options)

    monkeypatch.setattr(distributed_c10d, "init_process_group", look_and_form)
    ddp_timeout.watch_groups(distributed_c10d)
    monkeypatch.setattr(dist, "init_process_group", distributed_c10d.init_process_group)
    return given


HOUR, OTHER = timedelta(hours=1), timedelta(seconds=7)


def test_a_group_of_a_trainer_waits_as_long_as_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_ranks: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")

    def form() -> list[Any]:
        rank = str(dist.get_rank())
        os.environ.update({"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"})
        dist.destroy_process_group()
        given = watch_times(monkeypatch)
        ddp_timeout.watch_arguments(training_args)
        words: dict[str, Any] = {"use_cpu": True, "ddp_backend": "gloo", "report_to": "none", "ddp_timeout": 3600}
        assert TrainingArguments(str(tmp_path), **words).device.type == "cpu"
        dist.barrier()
        dist.destroy_process_group()
        dist.init_process_group("gloo", f"file://{tmp_path}/{rank}", rank=0, world_size=1)  # the script's own
        return given

    assert [rank.result for rank in run_ranks(form)[0]] == [[HOUR, None]] * 2


@pytest.mark.parametrize(
    ("words", "options", "given"),
    [
        pytest.param(("gloo",), {}, HOUR, id="none is given"),
        pytest.param(("gloo",), {"timeout": OTHER}, OTHER, id="one is given"),
        pytest.param(("gloo", None, OTHER), {}, None, id="one is given by its place"),
    ],
)
def test_a_time_of_a_group_stays(
    words: Any, options: Any, given: Any, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ddp_timeout, "SAID", [HOUR.total_seconds()])
    times = watch_times(monkeypatch)

    dist.init_process_group(*words, **options, store=dist.HashStore(), rank=0, world_size=1)

    assert times == [given]


def test_the_network_is_looked_at_once_ranks_have_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()

    def look(*_: object) -> None:
        looks.append(len(looks))
        raise OSError

    monkeypatch.setattr(interface, "choose", look)
    monkeypatch.setattr(distributed_c10d, "rendezvous", distributed_c10d.rendezvous)
    interface.watch_rendezvous(distributed_c10d)

    meeting = distributed_c10d.rendezvous(f"file://{tmp_path}/store", 0, 1)

    assert looks == [] and next(meeting)[1:] == (0, 1) and looks == [0]


@pytest.mark.parametrize("is_old", [False, True], ids=["this torch", "torch before 2.0"])
@pytest.mark.parametrize(
    ("bindings", "backend", "kept"),
    [
        ("oneccl_bindings_for_pytorch", "cpu:gloo", 1),  # as with a backend for each device, torch names none
        ("torch_ccl", "cpu:gloo", 1),
        ("torch_ccl", "gloo", 0),
        ("other", "cpu:gloo", 0),
    ],
)
def test_groups_of_oneccl_are_never_freed(is_old: bool, bindings: str, backend: str, kept: int, alone: None) -> None:
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    group, table = dist.group.WORLD, distributed_c10d._world.pg_map
    before = sys.getrefcount(group)

    keep_groups({DISTRIBUTED: SimpleNamespace(_pg_map=table) if is_old else distributed_c10d, bindings: object()})

    assert sys.getrefcount(group) == before + kept
    for _ in range(kept):
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(group))


LIMITS = (
    "MKL_NUM_THREADS", "MKL_DOMAIN_NUM_THREADS", "MKL_DYNAMIC", "KMP_DEVICE_THREAD_LIMIT", "KMP_ALL_THREADS",
    "KMP_TEAMS_THREAD_LIMIT", "OMP_THREAD_LIMIT", "OMP_DYNAMIC", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS",
)  # fmt: skip


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be rank 0, with threads that go back, of which nothing has been said."""
    count = torch.get_num_threads()
    for name in LIMITS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(threads, "SAID", [])
    monkeypatch.setattr(torch, "set_num_threads", torch.set_num_threads)
    yield
    monkeypatch.undo()
    torch.set_num_threads(count)


@pytest.mark.parametrize(
    ("given", "has", "more", "said"),
    [
        ("2", 1, {"MKL_NUM_THREADS": "1"}, ["MKL_NUM_THREADS=1"]),
        ("2", 1, dict.fromkeys(LIMITS, "1"), [" ".join(f"{name}=1" for name in LIMITS)]),
        ("2", 1, {}, ["its OpenMP has fewer"]),
        ("2", 1, {"MKL_NUM_THREADS": "1", "RANK": "1"}, []),  # rank 0 says it for all
        ("2", 2, {"MKL_NUM_THREADS": "2"}, []),
        ("", 1, {"MKL_NUM_THREADS": "1"}, []),  # nobody has given any
        ("2,1", 1, {}, []),  # for nested levels
    ],
)
def test_what_changes_the_number_of_threads_is_named(
    given: str, has: int, more: dict[str, str], said: list[str], limited: None, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    torch.set_num_threads(has)
    for name, value in {"OMP_NUM_THREADS": given, **more}.items():
        monkeypatch.setenv(name, value)

    threads.compare(torch)

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said) and all(text in line for text, line in zip(said, lines, strict=True))


@pytest.mark.parametrize(("number", "lines"), [(2, 0), (4, 1)])
def test_a_script_that_changes_it_is_told_once(
    number: int, lines: int, limited: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.set_num_threads(2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    threads.compare(torch)

    for _ in range(2):
        torch.set_num_threads(number)

    assert torch.get_num_threads() == number
    assert len(capsys.readouterr().err.splitlines()) == lines
