"""The process that renews a lease, beside the training, for as long as that runs."""

from __future__ import annotations

import os
import signal

from entrypoint.runs.lease import RENEW, create, make_text, read_lease, release, renew
from entrypoint.streams import print_error

PR_SET_PDEATHSIG = 1
# By this variable a training knows its process, and ends it as the last thing that it does (jobs/at_end.py).
VARIABLE = "MULTINODE_KEEPER"


def keep(path: str, owner: str, host: str) -> int:
    """Start the process and return its number; this one becomes the training by exec, and ends the other."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        detach(parent)
        renew_until_the_end(path, owner, host)
    except OSError as error:
        print_error(f"multinode: the lease {path} is not renewed any more: {error.strerror}")
    finally:
        os._exit(0)


def detach(parent: int) -> None:
    """Leave the signals of the job to the training: only SIGTERM counts, by which it or the kernel reports its end."""
    import ctypes

    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nowhere, number)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before this was heard
        os.kill(os.getpid(), signal.SIGTERM)


def renew_until_the_end(path: str, owner: str, host: str) -> None:
    """Renew the lease again and again, and release it at the end; say it, and stop, when another job has taken it.

    A container may end with its training. Where that was killed, there is no time left, and the lease expires.
    """
    fails = False
    while signal.sigtimedwait([signal.SIGTERM], RENEW) is None:
        try:
            other = find_other(path, owner, host)
            fails = False
        except OSError as error:  # a full disk, a server that starts anew: the training goes on, and so do we
            if not fails:
                print_error(
                    f"multinode: the lease {path} is not renewed: {error.strerror}; tried again every {RENEW:g} s"
                )
            fails, other = True, None
        if other is not None:
            print_error(f"multinode: a job on {other} has taken the directory for results, see {path}")
            return
    release(path, owner)


def find_other(path: str, owner: str, host: str) -> str | None:
    """Renew the lease, or take it again where it was lost; return the host of the job that has it instead."""
    if renew(path, owner, host) or create(path, make_text(owner, host)):
        return None
    held = read_lease(path)
    return held.host if held is not None and held.owner != owner else None
