"""`MULTINODE_LOGS`: what each rank says is kept in a file of its own; that of the first of each node is shown, too.

Torchrun's own --log_dir and --tee know no other launcher, call files by the rank's number on its node in a directory of
a random name, and put a prefix before each line that is shown.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping

from multinode_image.processes import CAUGHT, become, run_child
from multinode_image.settings import LOGS
from multinode_image.world.model import World

STREAMS = (1, 2)
# Seconds in which what a rank has said last is written; a process that outlives it may hold its streams for longer.
DRAIN = 10
# What ends a rank must not end who writes down what it says then.
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


@contextlib.contextmanager
def keep_log(directory: str, world: World) -> Iterator[bool]:
    """Let this process, a rank, write to its file; yield whether it has to stay, as what it says is shown, too."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"rank-{world.rank or 0}.log")
    if world.local_rank:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o664)
        for number in STREAMS:
            os.dup2(file, number)
        yield False
        return
    with copy_streams(path):
        yield True


@contextlib.contextmanager
def copy_streams(path: str) -> Iterator[None]:
    """Copy what is said to a file, until all of it is written."""
    shown = [os.dup(number) for number in STREAMS]
    copies = [start_copy(path, number) for number in STREAMS]
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, before in zip(STREAMS, shown):
            os.dup2(before, number)
        for copy in copies:
            try:
                copy.wait(DRAIN)
            except subprocess.TimeoutExpired:
                copy.kill()


def start_copy(path: str, number: int) -> subprocess.Popen[bytes]:
    """Put a process between a stream and what it goes to, which no signal to its group ends."""
    before = {each: signal.signal(each, signal.SIG_IGN) for each in ENDING}
    try:
        copy = subprocess.Popen(["tee", "--append", path], stdin=subprocess.PIPE, stdout=number)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert copy.stdin is not None
    os.dup2(copy.stdin.fileno(), number)
    copy.stdin.close()
    return copy


def end_alike(code: int) -> int:
    """Return an exit code, or end by the signal that it stands for: torchrun says which."""
    if code > 128:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {code - 128})
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(code - 128, signal.SIG_DFL)
        os.kill(os.getpid(), code - 128)
    return code


def run_logged(argv: list[str], environ: Mapping[str, str], world: World) -> int:
    """Run a rank of torchrun with a log, and return its exit code; all but the first of a node replace this process."""
    environ, place = {name: value for name, value in environ.items() if name != LOGS}, environ[LOGS]
    with keep_log(place, world) as stays:
        if not stays:
            become(argv[0], argv, environ)
        code = run_child(argv, environ, CAUGHT)
    return end_alike(code)
