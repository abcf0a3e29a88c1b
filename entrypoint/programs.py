"""Programs that take the place of this process."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

# Python ignores them for itself (library/signal, "General rules"), and a program would inherit that: `yes | head` in a
# shell would complain, and the shell could not change it. Python's own subprocess resets the same.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)


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
