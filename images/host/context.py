"""What every step of a build works with."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from images.host import process
from images.host.errors import require_text
from images.host.home import home_of

if TYPE_CHECKING:  # --help does without
    from concurrent.futures import Future

    from images.host.pip_config import Sources
    from images.host.progress import Progress
    from images.host.store import Store
    from images.platforms import Platform

Made = TypeVar("Made")


class Start(Protocol):
    """Start a task in the background."""

    def __call__(self, task: Callable[[], Made]) -> Future[Made]:
        """Return what waits for the result of a task, and raises its fault."""


@dataclass(frozen=True)
class World:
    """What the program is given from outside: environment variables, the day, and a clock in seconds."""

    environ: Mapping[str, str]
    today: datetime.date
    clock: Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Access:
    """How registries are reached.

    `certificate` is the file of trusted certificates (None: the usual ones); `say` tells the user what is waited for,
    `wait` sleeps for some seconds before the next attempt.
    """

    environ: Mapping[str, str]
    certificate: str | None = None
    say: Callable[[str], None] = lambda _: None
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True, kw_only=True)
class Context:
    """The store and the world around it; `pip` is where packages come from, None where nothing may be downloaded.

    `wheelhouse` is the user's directory of wheels. For a lock, `base` is the layout or archive that its base lies in,
    and `examples` is where its examples come from.
    Where `compiles` is false, layers are made without bytecode, whatever the lock says: nothing of a base is run.
    `native` is the platform whose programs this machine can start, None on a system of another kind.
    """

    store: Store
    environ: Mapping[str, str]
    today: datetime.date
    progress: Progress
    jobs: int
    pip: Sources | None
    access: Access
    wheelhouse: str | None = None
    base: str | None = None
    examples: str | None = None
    compiles: bool = False
    native: Platform | None = None

    @property
    def sources(self) -> Sources:
        """Return how servers of packages are reached; where nothing may be downloaded, without any setting of pip's."""
        from images.host.pip_config import Sources

        return self.pip or Sources()

    def side_by_side(self, step: str, tasks: Sequence[Callable[[], Made]], at_once: int) -> list[Made]:
        """Run tasks at the same time as one step of the progress; return their results in order.

        The first fault stops what has not begun, ends the programs and downloads that have, and is raised.
        """
        from queue import SimpleQueue

        ended: SimpleQueue[Future[Made]] = SimpleQueue()  # in C: ^C while it is waited for leaves no lock behind
        with self.progress.step(step, len(tasks)), background(at_once) as start:
            with process.uninterrupted():
                futures = [start(task) for task in tasks]
                for future in futures:
                    future.add_done_callback(ended.put)
            for _ in futures:
                ended.get().result()
                self.progress.done()
            return [future.result() for future in futures]


@contextmanager
def background(at_once: int = 1) -> Iterator[Start]:
    """Yield what starts tasks that run beside a block, so many at once, and returns what waits for their result.

    Where the block fails, nothing more is begun, and programs and downloads are ended.
    """
    from concurrent.futures import ThreadPoolExecutor

    pool, stop, inside = ThreadPoolExecutor(at_once), threading.Event(), copy_context()
    inside.run(process.STOPS.set, (*process.STOPS.get(), stop))

    def start(task: Callable[[], Made]) -> Future[Made]:
        with process.uninterrupted():
            return pool.submit(inside.copy().run, task)

    try:
        yield start
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def default_root(environ: Mapping[str, str]) -> Path:
    """Return the store's directory: $XDG_CACHE_HOME/multinode (XDG Base Directory Specification).

    A path that is not absolute is ignored, as the specification says. Raises UserFault where a path is not UTF-8, which
    other programs are given.
    """
    named = Path(environ.get("XDG_CACHE_HOME", ""))
    root = (named if named.is_absolute() else home_of(environ).absolute() / ".cache") / "multinode"
    for variable, path in {"XDG_CACHE_HOME": str(root), "TMPDIR": environ.get("TMPDIR", "")}.items():
        require_text(path, f"{variable} {path}")
    return root
