"""The only module that starts processes, and what signals may interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from images.host.errors import WorldFault

if TYPE_CHECKING:
    from types import FrameType


STOPS: ContextVar[tuple[threading.Event, ...]] = ContextVar("stops", default=())  # each ends the work of this thread


class Stopped(Exception):
    """The work of a thread is not needed any more: something beside it has failed, or was interrupted."""


def end_if_stopped() -> None:
    """Raise Stopped in a thread whose work is not needed any more."""
    if any(stop.is_set() for stop in STOPS.get()):
        raise Stopped


TICK = 0.5  # seconds
ENDS = (signal.SIGTERM, signal.SIGHUP)  # of a job that is cancelled, and of a connection that is closed


def end_as_interrupted() -> None:
    """Let the first of ENDS do what ^C does; one that is ignored stays so, as nohup wants it."""
    for number in ENDS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    for ending in ENDS:  # timeout(1) sends it twice, and the second is not to end the cleaning up
        signal.signal(ending, lambda *_: None)
    raise KeyboardInterrupt(number)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let ^C and ENDS wait until a block has ended that starts threads.

    KeyboardInterrupt can be raised inside of the lock that a new thread wants next (Lib/threading.py of CPython 3.11:
    Thread.start, Condition.__enter__). The lock stays locked then: neither the thread nor the program ever ends.
    """
    before = {int(code): signal.getsignal(code) for code in (signal.SIGINT, *ENDS)}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    waiting: list[tuple[int, FrameType | None]] = []
    for number in handlers:
        signal.signal(number, lambda *given: waiting.append(given))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for given in waiting[:1]:
            handlers[given[0]](*given)


@dataclass(frozen=True)
class Result:
    """What a finished process left: exit code and its two outputs as text."""

    code: int
    out: str
    err: str

    @property
    def account(self) -> str:
        """Return what a program that failed said on stderr, and what ended it if that was a signal."""
        lines = self.err.strip().splitlines()
        lines += [f"ended by signal {-self.code}"] if self.code < 0 else []
        return "\n".join(lines) or f"exit code {self.code}"

    @property
    def failure(self) -> str | None:
        """Return the last line of it where the program failed, without what would steer a terminal, else None."""
        last = self.account.splitlines()[-1]
        return "".join(sign if sign.isprintable() else "?" for sign in last) if self.code else None


@contextmanager
def nameless(text: str) -> Iterator[IO[bytes]]:
    """Yield a text as the input of a program: a file that nobody else can open, where a pipe would have no room."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def run(
    command: Sequence[str], env: Mapping[str, str], remedy: str, feed: IO[bytes] | None = None, *,
    out: IO[bytes] | None = None, cwd: Path | None = None,
    tick: Callable[[], None] | None = None, idle: Callable[[float], None] | None = None,
) -> Result:  # fmt: skip
    """Run a command to its end, whatever its exit code; `feed` is its standard input, and `out` a file for its output.

    `tick` is called every TICK seconds while it runs, and `idle` with the seconds since it last read or wrote anything;
    what they raise ends it. An interrupted command is asked to terminate and waited for, so that it can clean up after
    itself.
    Raises WorldFault with `remedy` if the program is not there.
    """
    child = _start(command, env, remedy, cwd=cwd, stdin=feed or subprocess.DEVNULL, stdout=out or subprocess.PIPE)
    ticks: list[Callable[[], None]] = [end_if_stopped, *([tick] if tick else [])]
    ticks += [Idle(child.pid, idle)] if idle else []
    try:
        output, err = _communicate(child, ticks)
    except BaseException:
        child.terminate()
        child.communicate()
        raise
    return Result(child.returncode, (output or b"").decode(errors="replace"), err.decode(errors="replace"))


def answer(command: Sequence[str], env: Mapping[str, str], remedy: str, seconds: float) -> Result | None:
    """Run a command that only asks; return None where it has not ended after so many seconds.

    It is killed then, with all its processes: one that waits for a lock may not listen to anything else.
    Raises WorldFault with `remedy` if the program is not there.
    """
    child = _start(command, env, remedy, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    with child:  # closes the pipes in the end, and waits for it
        try:
            output, err = child.communicate(timeout=seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise
    return Result(child.returncode, output.decode(errors="replace"), err.decode(errors="replace"))


def _start(command: Sequence[str], env: Mapping[str, str], remedy: str, **options: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, **options)
    except OSError as error:
        raise WorldFault("cannot start a program", f"{command[0]} ({error.strerror})", remedy) from error
    except ValueError as error:  # a NUL byte in an argument or a variable
        raise WorldFault("cannot start a program", f"{command[0]} ({error})", remedy) from error


class Idle:
    """How long a process has neither read nor written: no file, no pipe, no connection.

    Where the kernel does not say what a process reads and writes, it is never idle.
    """

    def __init__(self, pid: int, told: Callable[[float], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._counts, self._told, self._clock = Path(f"/proc/{pid}/io"), told, clock
        self._last, self._since = b"", clock()

    def __call__(self) -> None:
        """Tell the seconds since the last byte."""
        counts, now = self._read(), self._clock()
        if counts is None or counts != self._last:
            self._last, self._since = counts or b"", now
        self._told(now - self._since)

    def _read(self) -> bytes | None:
        try:
            return b"".join(self._counts.read_bytes().splitlines()[:2])  # rchar and wchar (proc(5)), of every thread
        except OSError:
            return None


def _communicate(child: subprocess.Popen[bytes], ticks: Sequence[Callable[[], None]]) -> tuple[bytes, bytes]:
    while True:
        try:
            return child.communicate(timeout=TICK)
        except subprocess.TimeoutExpired:
            for tick in ticks:
                tick()
