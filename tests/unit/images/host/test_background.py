"""Tasks side by side: their results, the first fault, and ^C meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from images.context import Context
from images.host.background import Progress, background, side_by_side
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


# What a build says of its steps: lines in a log, a moving line on a terminal.


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a terminal that can move, whatever the one of the tests is."""
    monkeypatch.setenv("TERM", "xterm")


def said(out: StringIO) -> str:
    return out.getvalue()


class Terminal(StringIO):
    """A file that is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def moving() -> tuple[Terminal, Progress]:
    """Make the progress on a terminal, without colours."""
    out = Terminal()
    return out, Progress(Console(file=out, width=120, color_system=None))


@pytest.mark.parametrize(
    ("variable", "value", "out"),
    [
        ("COLUMNS", "40", StringIO),
        ("FORCE_COLOR", "1", StringIO),
        ("TTY_COMPATIBLE", "1", StringIO),
        ("TTY_COMPATIBLE", "0", Terminal),
        ("TERM", "dumb", Terminal),
        ("TERM", "unknown", Terminal),
    ],
)
def test_a_place_where_nothing_can_move_has_lines(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, out: type[StringIO]
) -> None:
    monkeypatch.setenv(variable, value)
    file = out()
    progress = Progress(Console(file=file, width=40))

    with progress.step("fetching the base", 2):
        progress.done()
        progress.advance(5_000_000)
    progress.say("note: " + "a long line " * 9)

    assert said(file).splitlines() == ["fetching the base ...", "note: " + "a long line " * 9]


def test_a_terminal_has_a_line_that_moves_and_goes() -> None:
    out, progress = moving()

    with progress.step("fetching [the] base", 2):
        progress.done()
        progress.advance(2_000_000)
        progress.advance(3_000_000)

    assert "fetching [the] base" in said(out) and "1/2" in said(out) and "5 MB" in said(out)
    assert "..." not in said(out)
    assert said(out).endswith("\x1b[2K")  # which removes the line


@pytest.mark.parametrize("text", ["[bold]a[/bold]", "https://user:S3CRET@host/x", "a\x1b[31mb", ":smile:"])
def test_a_text_of_others_is_no_markup_and_no_command(text: str) -> None:
    out = StringIO()
    progress = Progress(Console(file=out, width=200, emoji=False))

    with progress.step(text):
        progress.say(text)

    assert "S3CRET" not in said(out) and "\x1b" not in said(out)
    assert ("S3CRET" in text) or said(out).count(text.replace("\x1b", "\\x1b")) == 2
