"""Let a program take the place of this process, and let this process end with its parent."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING, NoReturn

from entrypoint.errors import NOT_EXECUTABLE, NOT_FOUND, Refusal
from entrypoint.machine.files import which
from entrypoint.printing.streams import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

# Python ignores them for itself (library/signal, "General rules"), and a program would inherit that: `yes | head` in a
# shell would complain, and the shell could not change it. Python's own subprocess resets the same.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
# Says to the Pythons of a training that they are, and which process it was (programs/at_exit.py).
TRAINING = "MULTINODE_TRAINING"
PR_SET_PDEATHSIG = 1
FIRST_LINE = 256  # bytes that the kernel reads of it (BINPRM_BUF_SIZE)


def become(program: str, argv: list[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program, which finds signals as a shell would leave them.

    A training gets its own number (programs/at_exit.py). Raises OSError when it cannot be executed.
    """
    if TRAINING in environ:
        environ = {**environ, TRAINING: str(os.getpid())}
    before = {number: signal.signal(number, signal.SIG_DFL) for number in IGNORED}
    try:
        os.execvpe(program, argv, environ)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def execute(program: str, argv: list[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program; raise Refusal with the exit code of a shell for one that cannot be run."""
    if "/" in program:
        check_script(program)
    try:
        become(program, argv, environ)
    except FileNotFoundError:
        # Python looked it up before, so it is what the file names in its first line, or a library's loader.
        if which(program, environ) is None:
            raise Refusal("there is no such program", program, "a program of the image", NOT_FOUND) from None
        remedy = "name one that is there in its first line: #!/bin/sh, #!/usr/bin/env python3"
        raise Refusal("the interpreter of a program is not there", program, remedy, NOT_EXECUTABLE) from None
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.ENOMEM):
            raise
        remedy = "begin a script with #!/bin/sh or #!/usr/bin/env python3, make it executable, and match the machine"
        value = f"{program}: {error.strerror}"
        raise Refusal("the program cannot be executed", value, remedy, NOT_EXECUTABLE) from None


def check_script(program: str) -> None:
    """Raise Refusal for a script whose first line ends as on Windows: no interpreter has a name with that letter."""
    try:
        with open(program, "rb") as file:
            first = file.readline(FIRST_LINE)
    except OSError:  # a name that is looked up in PATH, or a program that may be executed and not read
        return
    if first.startswith(b"#!") and first.endswith(b"\r\n"):
        remedy = f"sed -i 's/\\r$//' {quote(program)}"
        raise Refusal("a script has the line ends of Windows", program, remedy, NOT_EXECUTABLE)


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when its parent ends, however that ends (prctl(2))."""
    import ctypes  # what only becomes another program pays nothing for it

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
