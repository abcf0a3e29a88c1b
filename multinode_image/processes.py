"""What becomes of this process: another program, or the parent of one that says why it was ended."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn

from multinode_image.errors import EXIT_OUTSIDE, NOT_EXECUTABLE, NOT_FOUND, Refusal
from multinode_image.machine.files import read_text, which
from multinode_image.machine.limits import explain_error, explain_kill, has_killed
from multinode_image.printing.streams import print_error
from multinode_image.settings import LOGS
from multinode_image.world.model import World

# Python ignores them for itself (library/signal, "General rules"), and a program would inherit that: `yes | head` in a
# shell would complain, and the shell could not change it. Python's own subprocess resets the same.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
PR_SET_PDEATHSIG = 1
SI_KERNEL = 0x80  # sigaction(2): sent by the kernel, as for a key of the terminal
# These cannot be caught, or are about the child itself.
UNCAUGHT = (
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGCHLD,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGCONT,
)
CAUGHT = tuple(sorted(signal.valid_signals() - set(UNCAUGHT)))


def heed_sigterm() -> None:
    """Let SIGTERM end the first process of a container while it waits: the kernel gives it no signal without a handler.

    A pod whose `command` is a program of ours has no tini. The handler ends with exec.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


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


# `MULTINODE_LOGS`: what each rank says is kept in a file of its own; that of the first of each node is shown, too.
#
# Torchrun's own --log_dir and --tee know no other launcher, call files by the rank's number on its node in a directory
# of a random name, and put a prefix before each line that is shown.

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
    before = {signum: signal.signal(signum, signal.SIG_IGN) for signum in ENDING}
    try:
        copy = subprocess.Popen(["tee", "--append", path], stdin=subprocess.PIPE, stdout=number)
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
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
