"""How a process that is alone forms a group, what a rank leaves while it joins one, and how many threads it has."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from multinode_image.hooks.compute import threads
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


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be rank 0, with threads that go back, of which nothing has been said."""
    count = torch.get_num_threads()
    for name in threads.OTHERS:
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
        ("2", 1, {"OMP_THREAD_LIMIT": "1", "OMP_DYNAMIC": "true"}, ["OMP_THREAD_LIMIT=1 OMP_DYNAMIC=true"]),
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
