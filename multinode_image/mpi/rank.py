"""A rank that `launch` has started: wait for its end, and where it failed, say how and end the whole job at once.

Hydra itself tells how a rank ended only when all have ended, and the others may wait half an hour for the one that is
gone. Its own clean-up of such a job is off, because it also ends ranks that are still at work when one has ended well
without MPI_Finalize, as ranks of oneCCL over MPI do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import replace

from multinode_image.errors import EXIT_OUTSIDE, LATER
from multinode_image.facts import Facts, read_this_machine
from multinode_image.machine.files import read_text
from multinode_image.printing.streams import print_note
from multinode_image.processes import end_with_parent, print_kill, run_child
from multinode_image.reading import whole
from multinode_image.tuning.threads import see_node, share
from multinode_image.world.table import HYDRA

# Set for the ranks of `launch`, and in no process that they start.
SUPERVISED = "MULTINODE_SUPERVISED"
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# What hydra ends with when it has lost a node; no rank may end so.
LOST = 255
# Hydra ends so, too, if it is told to end before each node has started its ranks, and nothing says when that is. A rank
# that fails earlier than so many seconds after its own start waits until then. No rank has met another by that time, so
# none fails because another one has.
STARTED, BEGAN = 1.0, time.monotonic()


def supervise(argv: list[str], environ: Mapping[str, str], rank: int) -> int:
    """Run the command as a child and return its exit code, 128 and more for a signal as in a shell.

    The parent is hydra's proxy, whose connection every rank inherits: `launch` would wait for ever after a proxy that
    is killed, for the connection is open until its ranks have ended.
    """
    stopped: list[int] = []

    def pass_on(sender: int) -> bool:
        stopped.append(sender)
        return False

    end_with_parent()
    clean = {name: value for name, value in environ.items() if name != SUPERVISED}
    code = run_child(argv, clean, PASSED_ON, pass_on)
    if code and not stopped:  # a job that is stopped needs no reasons
        print_kill(code, f"rank {rank} on {socket.gethostname()}", read_text, environ)
        print_failure(rank, code)
    if code:
        end_job(environ, code)
    return code


def take_cores(facts: Facts) -> Facts:
    """Give this process its share of the node's cores, as a rank of torchrun takes it: hydra has bound none.

    Under a quota, and with more ranks than cores, they share them. A rank that the user had bound stays where it is.
    """
    machine, environ = facts.machine, facts.environ
    count, place = (whole(environ.get(names[0], "")) for names in (HYDRA.names.local_size, HYDRA.names.local_rank))
    if not environ.get(SUPERVISED) or not count or place not in range(count) or machine.pinned:
        return facts
    node = see_node(machine)
    mine = share(node, count, place)
    if mine.cores == node.cores:
        return facts
    os.sched_setaffinity(0, frozenset().union(*mine.cores))
    return replace(facts, machine=read_this_machine(facts.files))


def find_rank(environ: Mapping[str, str]) -> int | None:
    """Return the rank that hydra gave this process; None where it gave none."""
    return whole(environ.get(HYDRA.names.rank, ""))


def report_refused(environ: Mapping[str, str], code: int) -> None:
    """Say that a rank was refused, and end the job.

    Its world may be what is refused, so the rank is the one that hydra gave it; what hydra starts to reach a host has
    the variables of a job, but no rank.
    """
    rank = find_rank(environ)
    if rank is not None:
        print_failure(rank, code)
        end_job(environ, code)


def print_failure(rank: int, code: int) -> None:
    """Print which rank has failed, where, and how."""
    killed = code - 128 in signal.valid_signals() and code != LATER
    how = f"was killed by signal {code - 128}" if killed else f"ended with exit code {code}"
    print_note(f"rank {rank} on {socket.gethostname()} {how}; the job is ended")


def end_job(environ: Mapping[str, str], code: int) -> None:
    """Let hydra kill all other ranks and end with this exit code: what MPI_Abort tells it (PMI 1, `abort`)."""
    time.sleep(max(0.0, BEGAN + STARTED - time.monotonic()))
    with contextlib.suppress(KeyError, ValueError, OSError):  # nobody is there any more who would read it
        os.write(int(environ["PMI_FD"]), b"cmd=abort exitcode=%d\n" % (EXIT_OUTSIDE if code == LOST else code))
