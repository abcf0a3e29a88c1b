"""Work beside other work, in the background of a block or several tasks as one step, and what is shown of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from images.host import process
from images.host.errors import shown
from images.host.process import STOPS, uninterrupted

if TYPE_CHECKING:
    from concurrent.futures import Future


class Progress:
    """The steps of one build."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # rich takes a log for a terminal where FORCE_COLOR is set, as in CI.
        self._moves = console.is_terminal and console.file.isatty() and not console.is_dumb_terminal
        self._bar = Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), console=console, transient=True, disable=not self._moves,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None, note="", visible=False)
        self._bytes = 0

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[None]:
        """Show that a step of `total` parts is going on."""
        self._bytes = 0
        self._bar.reset(self._task, description=escape(shown(text)), total=total, note="", visible=True)
        if not self._moves:
            self.say(f"{text} ...")
        with process.uninterrupted():
            self._bar.start()
        try:
            yield
        finally:
            self._bar.stop()

    def done(self) -> None:
        """Count one part of the step."""
        self._bar.advance(self._task)

    def advance(self, count: int) -> None:
        """Count bytes that came over the network."""
        self._bytes += count
        self._bar.update(self._task, note=f"{self._bytes / 1e6:.0f} MB")

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(shown(text), highlight=False, markup=False, soft_wrap=True)


Result = TypeVar("Result")


class Start(Protocol):
    """Start a task in the background."""

    def __call__(self, task: Callable[[], Result]) -> Future[Result]:
        """Return what waits for the result of a task, and raises its fault."""


def side_by_side(progress: Progress, step: str, tasks: Sequence[Callable[[], Result]], at_once: int) -> list[Result]:
    """Run tasks at the same time as one step of the progress; return their results in order.

    The first fault stops what has not begun, ends the programs and downloads that have, and is raised.
    """
    from queue import SimpleQueue

    ended: SimpleQueue[Future[Result]] = SimpleQueue()  # in C: ^C while it is waited for leaves no lock behind
    with progress.step(step, len(tasks)), background(at_once) as start:
        with uninterrupted():
            futures = [start(task) for task in tasks]
            for future in futures:
                future.add_done_callback(ended.put)
        for _ in futures:
            ended.get().result()
            progress.done()
        return [future.result() for future in futures]


@contextmanager
def background(at_once: int = 1) -> Iterator[Start]:
    """Yield what starts tasks that run beside a block, so many at once, and returns what waits for their result.

    Where the block fails, nothing more is begun, and programs and downloads are ended.
    """
    from concurrent.futures import ThreadPoolExecutor

    pool, stop, inside = ThreadPoolExecutor(at_once), threading.Event(), copy_context()
    inside.run(STOPS.set, (*STOPS.get(), stop))

    def start(task: Callable[[], Result]) -> Future[Result]:
        with uninterrupted():
            return pool.submit(inside.copy().run, task)

    try:
        yield start
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
