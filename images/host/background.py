"""Work beside other work: tasks in the background of a block, or several at the same time as one step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol, TypeVar

from images.host.process import uninterrupted
from images.host.stops import STOPS

if TYPE_CHECKING:  # --help does without
    from concurrent.futures import Future

    from images.host.progress import Progress

Made = TypeVar("Made")


class Start(Protocol):
    """Start a task in the background."""

    def __call__(self, task: Callable[[], Made]) -> Future[Made]:
        """Return what waits for the result of a task, and raises its fault."""


def side_by_side(progress: Progress, step: str, tasks: Sequence[Callable[[], Made]], at_once: int) -> list[Made]:
    """Run tasks at the same time as one step of the progress; return their results in order.

    The first fault stops what has not begun, ends the programs and downloads that have, and is raised.
    """
    from queue import SimpleQueue

    ended: SimpleQueue[Future[Made]] = SimpleQueue()  # in C: ^C while it is waited for leaves no lock behind
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

    def start(task: Callable[[], Made]) -> Future[Made]:
        with uninterrupted():
            return pool.submit(inside.copy().run, task)

    try:
        yield start
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
