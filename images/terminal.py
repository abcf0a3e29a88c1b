"""What a program has of a terminal: its ^C, and a stdout that may be full or have lost its reader.

It imports nothing of the rest, so that a program can set up its ^C before it imports anything else.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

STDOUT = "stdout"


def end_at_interrupt() -> None:
    """Let ^C end this process without a traceback, as while its modules are imported; one that is ignored stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts() -> None:
    """Let ^C raise KeyboardInterrupt again, after end_at_interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def naming_stdout() -> Iterator[None]:
    """Name stdout in an OSError of a block that writes to it, as an error of a file names the file."""
    try:
        yield
    except OSError as error:
        error.filename = STDOUT
        raise


def width(environ: Mapping[str, str]) -> int | None:
    """Return the columns to print in where COLUMNS is 0, in which rich prints nothing; else None, for what rich finds.

    Other programs take the 0 as unknown, and ask the terminal.
    """
    said = environ.get("COLUMNS", "")
    return shutil.get_terminal_size().columns or 80 if said.isdecimal() and not said.strip("0") else None


def mute(stream: TextIO) -> None:
    """Discard what is left in a stream that cannot be written, which Python would report at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
