"""Run a rank as a child where somebody has to stay who says why it was killed."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from entrypoint.machine.files import read_text
from entrypoint.machine.reached import count_reached, explain_end
from entrypoint.printing.streams import print_error
from entrypoint.processes.programs import become, end_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from entrypoint.machine.reached import Reached

SI_KERNEL = 0x80  # sigaction(2): sent by the kernel, as for a key of the terminal
# These cannot be caught, or are about the child itself.
OWN = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT)
CAUGHT = tuple(sorted(signal.valid_signals() - set(OWN)))


def run_child(
    argv: list[str], environ: Mapping[str, str], caught: Iterable[int], reached: Callable[[int], bool] | None = None
) -> int:
    """Run the command as a child and return its exit code, 128 and more for a signal as in a shell.

    caught: signals that do not end this process, and that the child gets from it; reached: whether the child has those
    of a sender, a process id, already. Those of a terminal's keys it has, since it is in the same group.
    """
    waited = {*caught, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        become_child(argv, environ)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        came = signal.sigwaitinfo(waited)
        if came.si_signo == signal.SIGCHLD or (came.si_code == SI_KERNEL and not is_hangup(came.si_signo)):
            continue
        if came.si_code == SI_KERNEL or reached is None or not reached(came.si_pid):
            os.kill(child, came.si_signo)  # it is there, if only as one that nobody has waited for
    return os.WEXITSTATUS(ended[1]) if os.WIFEXITED(ended[1]) else 128 + os.WTERMSIG(ended[1])


def is_hangup(number: int) -> bool:
    """Return whether a signal of the kernel says that our terminal is gone: it tells that to the first of a session.

    That is this process where somebody has typed it in `kubectl exec -it` (drivers/tty/tty_jobctrl.c,
    tty_signal_session_leader). The others of a group are told once their first has ended.
    """
    return number == signal.SIGHUP and os.getsid(0) == os.getpid()


def become_child(argv: list[str], environ: Mapping[str, str]) -> None:
    """Replace this process, a child, by the command, which ends with its parent: a launcher knows only that one."""
    end_with_parent()
    try:
        become(argv[0], argv, environ)
    except OSError as error:
        print(f"multinode: {argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def watch_training(argv: list[str], environ: Mapping[str, str], rank: int | None) -> int:
    """Run the command as a child, say why it was killed, and return its exit code.

    Below `tini -g` every process of the group has what tini sends, and in a step of Slurm every process of the step
    what its daemon sends; the first process of a container is below neither.
    """
    parent, in_step = os.getppid(), "SLURM_STEP_ID" in environ and os.getpid() != 1
    tini = parent if has_group(read_text(f"/proc/{parent}/cmdline")) else None

    def reached(sender: int) -> bool:
        return sender == tini or (in_step and is_of_step(sender, read_text))

    before = count_reached(read_text)
    code = run_child(argv, environ, CAUGHT, reached)
    host = socket.gethostname()
    explain_kill(code, f"the training on {host}" if rank is None else f"rank {rank} on {host}", read_text, before)
    return code


def has_group(cmdline: str | None) -> bool:
    """Return whether a command line of /proc is that of a tini that signals the whole group of its child."""
    words = (cmdline or "").split("\0")
    options = words[1 : words.index("--")] if "--" in words else words[1:]
    return os.path.basename(words[0]) == "tini" and "-g" in options


def is_of_step(sender: int, files: Callable[[str], str | None]) -> bool:
    """Return whether a signal in a step of Slurm came from its daemon, which sends it to every process of the step.

    One from another container has the number 0. A second signal does less harm than none.
    """
    return sender == 0 or (files(f"/proc/{sender}/comm") or "").startswith("slurmstepd")


def explain_kill(code: int, name: str, files: Callable[[str], str | None], before: Reached) -> None:
    """Print which limit ended a rank, if one did; before: what the kernel had counted by then."""
    reason = explain_end(128 - code if code > 128 else code, name, files, before)
    if reason is not None:
        print_error(reason)
