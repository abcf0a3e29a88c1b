"""Supervise a rank that `launch` started, and report how it ended: hydra does that only when all have ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING

from entrypoint.faults.memory import count_kills
from entrypoint.machine.files import read_text
from entrypoint.numbers import whole
from entrypoint.processes.child import explain_kill, run_child
from entrypoint.processes.programs import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPERVISED = "MULTINODE_SUPERVISED"
# Begins a line on stderr that `launch` reads and does not print: rank, host, exit code.
FAILED = b"\x00multinode-failed "
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def supervise(argv: list[str], environ: Mapping[str, str], rank: int) -> int:
    """Run the command as a child and return its exit code, 128 and more for a signal as in a shell.

    The parent is hydra's proxy, whose connection every rank inherits: `launch` would wait for ever after a proxy that
    is killed, for the connection is open until its ranks have ended.
    """
    end_with_parent()
    # Not inherited further: a training that a rank starts itself is not supervised.
    clean = {name: value for name, value in environ.items() if name != SUPERVISED}
    before = count_kills(read_text)
    code = run_child(argv, clean, PASSED_ON)
    if code:
        explain_kill(code, f"rank {rank} on {socket.gethostname()}", read_text, before)
        report(rank, code)
    return code


def find_rank(environ: Mapping[str, str]) -> int | None:
    """Return the rank that hydra gave this process; None where it gave none."""
    return whole(environ.get("PMI_RANK", ""))


def report_refused(environ: Mapping[str, str], code: int) -> None:
    """Report the end of a rank that was refused, so that the others do not wait for it.

    Its world may be what is refused, so the rank is the one that hydra gave it; what hydra starts to reach a host has
    the variables of a job, but no rank.
    """
    rank = find_rank(environ)
    if rank is not None:
        with contextlib.suppress(OSError):  # nobody is there any more who would read it
            report(rank, code)


def report(rank: int, code: int) -> None:
    """Tell `launch` that a rank on this host has failed."""
    os.write(2, b"%s%d %s %d\n" % (FAILED, rank, socket.gethostname().encode(), code))
