"""What a program has of a terminal: its ^C, and a stdout that nothing more is written to.

It imports nothing of the rest, so that a program can set up its ^C before it imports anything else.
"""

from __future__ import annotations

import os
import signal
from typing import TextIO


def end_at_interrupt() -> None:
    """Let ^C end this process without a traceback, as while its modules are imported; one that is ignored stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts() -> None:
    """Let ^C raise KeyboardInterrupt again, after end_at_interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def mute(stream: TextIO) -> None:
    """Discard what is left in a stream that cannot be written, which Python would report at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
