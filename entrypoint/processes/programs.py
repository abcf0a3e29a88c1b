"""Let a program take the place of this process, and let this process end with its parent."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NoReturn

from entrypoint.errors import NOT_EXECUTABLE, NOT_FOUND, Refusal
from entrypoint.machine.files import which

if TYPE_CHECKING:
    from collections.abc import Mapping

# Python ignores them for itself (library/signal, "General rules"), and a program would inherit that: `yes | head` in a
# shell would complain, and the shell could not change it. Python's own subprocess resets the same.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
PR_SET_PDEATHSIG = 1


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
    except FileNotFoundError:
        # Python looked it up before, so it is what the file names in its first line, or a library's loader.
        if which(program, environ) is None:
            raise Refusal("there is no such program", program, "a program of the image", NOT_FOUND) from None
        remedy = "name one that is there in its first line: #!/bin/sh, #!/usr/bin/env python3"
        raise Refusal("the interpreter of a program is not there", program, remedy, NOT_EXECUTABLE) from None
    except OSError as error:
        remedy = "begin a script with #!/bin/sh or #!/usr/bin/env python3, make it executable, and match the machine"
        value = f"{program}: {error.strerror}"
        raise Refusal("the program cannot be executed", value, remedy, NOT_EXECUTABLE) from None


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when its parent ends, however that ends (prctl(2))."""
    import ctypes  # what only becomes another program pays nothing for it

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
