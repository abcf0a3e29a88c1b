"""How long an agent stays at its end, so that the others read in its store how it ended; the clock is made up."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from multinode_image.hooks.ends import board, ending
from multinode_image.hooks.ends.board import DONE, FAILED, READ, Board
from multinode_image.hooks.ends.ending import LAST
from multinode_image.hooks.job.word import WORD


class Clock(SimpleNamespace):
    """A time that only a sleep moves, in the place of the module `time`."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Gone(dist.HashStore):
    """A store whose node has left."""

    def add(self, key: str, by: int) -> int:
        raise RuntimeError("Connection reset by peer")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    started = Clock()
    monkeypatch.setattr(ending, "time", started)
    monkeypatch.setattr(ending, "REST", 0.0)
    return started


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Board]]:
    """Return what makes the board of a node that does not read the others by itself."""
    monkeypatch.setattr(board, "PAUSE", 0.001)
    monkeypatch.setattr(Board, "watch", lambda _: None)
    LAST.clear()
    yield lambda store, number, count=3: Board(store, number, count, 0)
    LAST.clear()


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_agent_says_and_tells_which_of_its_ranks_failed_first(make: Callable[..., Board], is_gone: bool) -> None:
    store = Gone() if is_gone else dist.HashStore()
    one = make(store, 0, 1)
    ending.tell_failure(SimpleNamespace(_multinode=one), {"rank": 1, "code": 3})

    host = socket.gethostname()
    record = {"rank": 1, "code": 3, "host": host, "order": int(not is_gone)}
    assert one.failed == {0: record}
    assert LAST[0].startswith(f"the job has failed: rank 1 on node 0 ({host}) failed first, with code 3")
    assert is_gone or json.loads(store.get(f"{one.place}/{FAILED}/0/text")) == record


@pytest.mark.parametrize(
    ("others", "number", "seconds", "is_done"), [(1, 0, 1.0, False), (2, 0, 0.0, True), (2, 1, 1.0, False)]
)
def test_who_keeps_the_store_leaves_once_all_have_read(
    make: Callable[..., Board], clock: Clock, monkeypatch: pytest.MonkeyPatch, others: int, number: int,
    seconds: float, is_done: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(ending, "LINGER", 1.0)
    one = make(dist.HashStore(), number)
    for _ in range(others):
        one.count_up(READ)

    ending.part(one)

    assert clock.now - 100 == pytest.approx(seconds, abs=ending.LOOK)
    assert one.count_up(READ, 0) == others + 1 and one.count_up(DONE, 0) == is_done


@pytest.mark.parametrize(("readers", "seconds"), [(2, 0.0), (1, 1.0)])
def test_who_has_failed_stays_until_the_others_have_read_it(
    make: Callable[..., Board], clock: Clock, monkeypatch: pytest.MonkeyPatch, readers: int, seconds: float
) -> None:
    monkeypatch.setattr(ending, "LINGER", 1.0)
    one = make(dist.HashStore(), 1)
    one.failed = {1: {"rank": 0, "code": 1, "order": 1}}
    for _ in range(readers):
        one.count_up(f"{READ}/1")

    ending.linger(SimpleNamespace(_multinode=one))

    assert clock.now - 100 == pytest.approx(seconds, abs=ending.LOOK)
    assert LAST[0].startswith("the job has failed: rank 0 on node 1")


def test_an_agent_of_one_node_says_nothing_at_its_end() -> None:
    LAST.clear()
    ending.linger(SimpleNamespace(_multinode=None))
    assert LAST == []


def test_a_wait_is_in_vain_only_after_some_time(
    make: Callable[..., Board], clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WORD, str(tmp_path))
    (tmp_path / "joining-0").touch()
    one: Any = make(dist.HashStore(), 0)
    one.good = {1}
    said = list[bool]()
    for clock.now in (100.0, 99.9 + ending.VAIN, 100.0 + ending.VAIN):
        said.append(bool(ending.find_vain_wait(one, 2)))

    assert said == [False, False, True]
