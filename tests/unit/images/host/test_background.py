"""Tasks side by side: their results, the first fault, and ^C meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

from images.context import Context
from images.host.background import background, side_by_side
from images.host.errors import WorldFault
from images.host.process import Stopped, end_if_stopped
from images.store.store import Store
from tests.support import locks


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return locks.context(Store(tmp_path), None, {})


def test_results_have_the_order_of_the_tasks(context: Context) -> None:
    second_ended = threading.Event()

    def first() -> int:
        assert second_ended.wait(10)
        return 1

    def second() -> int:
        second_ended.set()
        return 2

    assert side_by_side(context.progress, "counting", [first, second], 2) == [1, 2]


def test_a_fault_stops_what_has_not_begun(context: Context) -> None:
    begun: list[int] = []

    def fail() -> None:
        raise WorldFault("the network is down", "eth0", "try again")

    def work() -> None:
        begun.append(1)
        time.sleep(0.001)

    with pytest.raises(WorldFault, match="eth0"):
        side_by_side(context.progress, "failing", [fail, *[work] * 1000], 1)
    assert len(begun) < 1000


def work(begun: threading.Event, ended: list[str]) -> None:
    """Work until it is stopped, and say so."""
    begun.set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            end_if_stopped()
        except Stopped:
            ended.append("in time")
            raise


def test_a_fault_ends_what_has_begun(context: Context) -> None:
    begun, ended = threading.Event(), list[str]()

    def fail() -> None:
        assert begun.wait(10)
        raise WorldFault("the network is down", "eth0", "try again")

    with pytest.raises(WorldFault, match="eth0"):
        side_by_side(context.progress, "failing", [lambda: work(begun, ended), fail], 2)
    assert ended == ["in time"]


def test_what_a_task_has_begun_ends_with_it() -> None:
    begun, ended = threading.Event(), list[str]()

    def outer() -> None:
        with background() as start:
            start(lambda: work(begun, ended)).result()

    with pytest.raises(WorldFault, match="eth0"), background() as start:
        start(outer)
        begun.wait()
        raise WorldFault("no network", "eth0", "another")
    assert ended == ["in time"]


def test_an_interrupt_waits_until_the_threads_have_started(
    foreground: None, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raised in the middle of a start, it may leave a lock behind, and the program would never end."""
    started: list[str] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        signal.raise_signal(signal.SIGINT)
        start(thread)
        started.append(thread.name)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        side_by_side(context.progress, "starting", [threading.Event().is_set] * 3, 1)
    assert len(started) == 1
