"""The keeper: a process beside the training that renews its lease for as long as the training runs."""

from __future__ import annotations

import contextlib
import os
import signal

from entrypoint.errors import WORLD, Refusal
from entrypoint.machine.files import create
from entrypoint.printing.streams import print_error
from entrypoint.processes.programs import end_with_parent
from entrypoint.runs.lease import EXPIRES, RENEW, make_text, read_lease, release, renew

# By this variable a training knows the number of its keeper, which it ends as its last act (programs/at_end.py).
KEEPER = "MULTINODE_KEEPER"
# Seconds until what SIGTERM has not ended is killed. With --enable_jit_checkpoint the Trainer writes one more
# checkpoint, 3 seconds after that signal (transformers/trainer_jit_checkpoint.py, kill_wait).
GRACE = 2.0


def start_keeper(path: str, owner: str, host: str) -> int:
    """Start the keeper and return its number; this process becomes the training by exec, which ends the keeper."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        detach(parent)
        other = renew_until_the_end(path, owner, host, parent)
        if other is not None:
            print_error(describe_loss(path, other))
            end_training(parent)
    except OSError as error:
        print_error(f"multinode: the lease {path} is not renewed any more: {error.strerror}")
    finally:
        os._exit(0)


def detach(parent: int) -> None:
    """Leave the terminal and the signals of the job to the training, and block SIGTERM until it is waited for.

    The training sends it as its last act; where it ends in another way, the kernel does.
    """
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nowhere, number)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    end_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before this was heard
        os.kill(os.getpid(), signal.SIGTERM)


def renew_until_the_end(path: str, owner: str, host: str, training: int) -> str | None:
    """Renew the lease until the training ends, then release it; return the host of another job that has taken it.

    The first time is at once: another node of the job may be waiting for a sign that somebody holds it.
    Where a training that is killed takes its container with it, nobody releases the lease, and it expires.
    """
    fails, pause = False, 0.0
    while not has_ended(training, pause):
        pause = RENEW
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
            return None if has_ended(training, 0) else other
    release(path, owner)
    return None


def has_ended(training: int, seconds: float) -> bool:
    """Wait some seconds, and return whether the training ends: it has sent SIGTERM, or is not our parent any more.

    Slurm sends SIGTERM to every process of a step, before its time is over too. The training may have a handler for it,
    and write for minutes.
    """
    told = signal.sigtimedwait([signal.SIGTERM], seconds)
    return told is not None and (told.si_pid == training or os.getppid() != training)


def describe_loss(path: str, other: str) -> Refusal:
    """Return the message for a training that is ended because another job has its directory."""
    fact = "another job has taken the directory for results, and this training is ended"
    why = f"a job that is frozen for {EXPIRES:.0f} s, as in a paused container, loses its directory"
    return Refusal(fact, f"{path}: a job on {other}", f"--output_dir ANOTHER, or leave it to that job: {why}", WORLD)


def end_training(training: int) -> None:
    """End the training before it writes beside the other job.

    As long as it is the parent of this process, no other process can have its number. Torchrun's agent passes SIGTERM
    on to its ranks.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        if os.getppid() == training:
            with contextlib.suppress(ProcessLookupError):
                os.kill(training, number)
        if has_ended(training, GRACE):
            return


def find_other(path: str, owner: str, host: str) -> str | None:
    """Renew the lease, or take it again where it was lost; return the host of the job that has it instead."""
    if renew(path, owner, host) or create(path, make_text(owner, host)):
        return None
    held = read_lease(path)
    return held.host if held is not None and held.owner != owner else None
