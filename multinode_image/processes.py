"""What becomes of this process: another program, or the parent of one that says why it was ended."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from multinode_image.errors import EXIT_OUTSIDE, NOT_EXECUTABLE, NOT_FOUND, Refusal
from multinode_image.machine.exhausted import explain_error, explain_kill, has_killed
from multinode_image.machine.files import read_text, which
from multinode_image.printing.streams import print_error

# Python ignores them for itself (library/signal, "General rules"), and a program would inherit that: `yes | head` in a
# shell would complain, and the shell could not change it. Python's own subprocess resets the same.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
PR_SET_PDEATHSIG = 1
SI_KERNEL = 0x80  # sigaction(2): sent by the kernel, as for a key of the terminal
# These cannot be caught, or are about the child itself.
OWN = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT)
CAUGHT = tuple(sorted(signal.valid_signals() - set(OWN)))


def become(program: str, argv: list[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program, which finds signals as a shell would leave them.

    Raises OSError when it cannot be executed.
    """
    before = {number: signal.signal(number, signal.SIG_DFL) for number in IGNORED}
    try:
        os.execvpe(program, argv, environ)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def execute(program: str, argv: list[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program; raise Refusal with the exit code of a shell for one that cannot be run."""
    try:
        become(program, argv, environ)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.ENOMEM):
            raise
        # Else it is what the file names in its first line, or a library's loader.
        missing = isinstance(error, FileNotFoundError) and which(program, environ) is None
        remedy = (
            "a program of the image; a script that is executable, and begins with #!/bin/sh or #!/usr/bin/env python3"
        )
        code = NOT_FOUND if missing else NOT_EXECUTABLE
        raise Refusal("the program cannot be executed", f"{program}: {error.strerror}", remedy, code) from None


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when its parent ends, however that ends (prctl(2))."""
    import ctypes  # what only becomes another program pays nothing for it

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def run_child(
    argv: list[str], environ: Mapping[str, str], caught: Iterable[int], sent_to_all: Callable[[int], bool] | None = None
) -> int:
    """Run the command as a child and return its exit code, 128 and more for a signal as in a shell.

    caught: signals that do not end this process, and that the child gets from it; sent_to_all: whether a sender, a
    process id, signals the child itself. A terminal's keys do, since the child is in the same group.
    """
    waited = {*caught, signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who ignores it hears of no child's end
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    parent, child = os.getpid(), os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        become_child(argv, environ, parent)
    while (ended := os.waitpid(-1, os.WNOHANG))[0] != child:
        if ended[0]:  # an orphan: the first process of a container gets all, and nobody else would wait for it
            continue
        came = signal.sigwaitinfo(waited)
        if came.si_signo == signal.SIGCHLD or (came.si_code == SI_KERNEL and not is_hangup(came.si_signo)):
            continue
        if came.si_code == SI_KERNEL or sent_to_all is None or not sent_to_all(came.si_pid):
            os.kill(child, came.si_signo)  # it is there, if only as one that nobody has waited for
    return os.WEXITSTATUS(ended[1]) if os.WIFEXITED(ended[1]) else 128 + os.WTERMSIG(ended[1])


def is_hangup(number: int) -> bool:
    """Return whether a signal of the kernel says that our terminal is gone: it tells that to the first of a session.

    That is this process where somebody has typed it in `kubectl exec -it` (drivers/tty/tty_jobctrl.c,
    tty_signal_session_leader). The others of a group are told once their first has ended.
    """
    return number == signal.SIGHUP and os.getsid(0) == os.getpid()


def become_child(argv: list[str], environ: Mapping[str, str], parent: int) -> NoReturn:
    """Replace this process, a child, by the command, which ends with its parent: a launcher knows only that one."""
    code = EXIT_OUTSIDE
    try:
        end_with_parent()
        if os.getppid() == parent:  # it may have ended before
            execute(argv[0], argv, environ)
    except Refusal as refusal:
        print_error(refusal)
        code = refusal.code
    except OSError as error:
        print_error(explain_error(error, read_text))
    finally:  # nothing of the parent's is to run here
        os._exit(code)


def watch_training(argv: list[str], environ: Mapping[str, str], rank: int | None) -> int:
    """Run the command as a child, say why it was killed, and return its exit code.

    Below `tini -g` every process of the group has what tini sends, and in a step of Slurm every process of the step
    what its daemon sends; the first process of a container is below neither.
    """
    parent, in_step = os.getppid(), "SLURM_STEP_ID" in environ and os.getpid() != 1
    tini = parent if has_group(read_text(f"/proc/{parent}/cmdline")) else None

    def sent_to_all(sender: int) -> bool:
        return sender == tini or (in_step and is_of_step(sender, read_text))

    code = run_child(argv, environ, CAUGHT, sent_to_all)
    host = socket.gethostname()
    print_kill(code, f"the training on {host}" if rank is None else f"rank {rank} on {host}", read_text, environ)
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


def print_kill(code: int, name: str, files: Callable[[str], str | None], environ: Mapping[str, str]) -> None:
    """Print why a rank was killed, if that was for want of memory; code: that of a shell; environ: its variables."""
    if code == 128 + signal.SIGKILL and has_killed(files, environ):
        print_error(explain_kill(name, files))
