"""Which rank of a node failed first, of those that torchrun's agent names."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Signals that follow from the end of another rank: what the agent sends to those that are left, and what a process
# sends itself. They are later than an error, or as likely.
STOPPED, ABORTED = -signal.SIGTERM, -signal.SIGABRT


def find_first(failures: Mapping[int, Any], *, killed: bool) -> tuple[int, int]:
    """Return the rank that failed first, and its exit code; killed: whether one was killed for want of memory.

    Times are whole seconds: the others end with an error as soon as one is gone. That one has no error of its own with
    a time in it, so the agent's is taken, which may be of the next second (elastic/multiprocessing/errors).
    """

    def weigh(rank: int) -> tuple[int, int]:
        when, code = (int(getattr(failures[rank], name, 0)) for name in ("timestamp", "exitcode"))
        if killed and code == -signal.SIGKILL:
            return when - 1, 0
        if code == STOPPED:
            return when, 3
        return when, 2 if code >= 0 or code == ABORTED else 1

    rank = min(failures, key=weigh)
    return rank, int(getattr(failures[rank], "exitcode", 0))
