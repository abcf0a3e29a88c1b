"""Supervise a rank that `launch` started, and report how it ended: hydra does that only when all have ended."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPERVISED = "MULTINODE_SUPERVISED"
# Begins a line on stderr that `launch` reads and does not print: rank, host, exit code.
FAILED = b"\x00multinode-failed "
PR_SET_PDEATHSIG = 1
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def supervise(argv: list[str], environ: Mapping[str, str], rank: int) -> int:
    """Run the command as a child and return its exit code, 128 and more for a signal as in a shell."""
    # Not inherited further: a training that a rank starts itself is not supervised.
    clean = {name: value for name, value in environ.items() if name != SUPERVISED}
    child = os.fork()
    if child == 0:
        become(argv, clean)

    def stop(number: int, _: FrameType | None) -> None:
        try:
            os.kill(child, number)
        except ProcessLookupError:  # hydra signals the child, too, and it may be gone already
            pass

    for number in PASSED_ON:
        signal.signal(number, stop)
    _, status = os.waitpid(child, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    if code:
        os.write(2, b"%s%d %s %d\n" % (FAILED, rank, socket.gethostname().encode(), code))
    return code


def become(argv: list[str], environ: dict[str, str]) -> None:
    """Replace this process by the command, which ends with the supervisor: hydra knows only that one."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        os.execvpe(argv[0], argv, environ)
    except OSError as error:
        print(f"multinode: {argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)
