"""Run a rank as a child where somebody has to stay who says why it was killed."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from entrypoint import programs
from entrypoint.container.files import read_text
from entrypoint.errors import Refusal
from entrypoint.faults.memory import REMEDY, count_kills, explain_memory
from entrypoint.streams import print_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

PR_SET_PDEATHSIG = 1
SI_KERNEL = 0x80  # sigaction(2): sent by the kernel, as for a key of the terminal
# These cannot be caught, or are about the child itself.
OWN = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT)
CAUGHT = tuple(sorted(signal.valid_signals() - set(OWN)))


def run_child(argv: list[str], environ: Mapping[str, str], caught: Iterable[int], *, passes_on: bool = True) -> int:
    """Run the command as a child and return its exit code, 128 and more for a signal as in a shell.

    caught: signals that do not end this process; passes_on: whether the child gets them from it. Those of a terminal
    reach the child anyway, since it is in the same group.
    """
    waited = {*caught, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        become_child(argv, environ)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        came = signal.sigwaitinfo(waited)
        if passes_on and came.si_signo != signal.SIGCHLD and came.si_code != SI_KERNEL:
            os.kill(child, came.si_signo)  # it is there, if only as one that nobody has waited for
    return os.WEXITSTATUS(ended[1]) if os.WIFEXITED(ended[1]) else 128 + os.WTERMSIG(ended[1])


def become_child(argv: list[str], environ: Mapping[str, str]) -> None:
    """Replace this process, a child, by the command, which ends with its parent: a launcher knows only that one."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        programs.become(argv[0], argv, environ)
    except OSError as error:
        print(f"multinode: {argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def watch(argv: list[str], environ: Mapping[str, str], rank: int | None) -> int:
    """Run the command as a child, say why it was killed, and return its exit code.

    Below `tini -g` every process of the group gets a signal, and in a step of Slurm every process of the step, so the
    child has it already; the first process of a container is below neither.
    """
    in_step = "SLURM_STEP_ID" in environ and os.getpid() != 1
    reached = in_step or has_group(read_text(f"/proc/{os.getppid()}/cmdline"))
    code = run_child(argv, environ, CAUGHT, passes_on=not reached)
    host = socket.gethostname()
    explain_kill(code, f"the training on {host}" if rank is None else f"rank {rank} on {host}", read_text)
    return code


def has_group(cmdline: str | None) -> bool:
    """Return whether a command line of /proc is that of a tini that signals the whole group of its child."""
    words = (cmdline or "").split("\0")
    options = words[1 : words.index("--")] if "--" in words else words[1:]
    return os.path.basename(words[0]) == "tini" and "-g" in options


def explain_kill(code: int, name: str, files: Callable[[str], str | None]) -> None:
    """Print why a rank was killed, if that was for want of memory."""
    if code == 128 + signal.SIGKILL and count_kills(files):
        print_error(Refusal(f"{name} was killed by signal {signal.SIGKILL:d}", explain_memory(files), REMEDY))
