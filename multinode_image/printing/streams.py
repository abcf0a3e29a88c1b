"""What is printed, on streams that may be closed, full, or no longer read; and a word quoted for a shell."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from multinode_image.errors import EXIT_OUTSIDE, Refusal, one_row
from multinode_image.printing.secrets import hide_text


def print_note(text: str) -> None:
    """Print one row on stderr that says whose it is."""
    print_error(f"multinode: {one_row(text)}")


def print_error(text: object) -> None:
    """Print on stderr, without passwords; where that cannot be written, the command runs all the same."""
    # Without this, print takes stdout where stderr was closed before Python started.
    if sys.stderr is None:
        return
    try:
        print(hide_text(str(text)), file=sys.stderr, flush=True)
    except OSError:
        mute(sys.stderr, 2)


def print_output(text: str) -> None:
    """Print on stdout, without passwords, as `write_output` does."""
    write_output(hide_text(text))


def write_output(text: str) -> None:
    """Print on stdout what has no passwords.

    Raise Refusal if it cannot be written, but not if a reader like `head` has closed it.
    """
    if sys.stdout is None:
        return
    known = sys.stdout.encoding or "ascii"
    try:
        # An argument or a variable may be no text at all.
        print(text.encode(known, "backslashreplace").decode(known), flush=True)
    except BrokenPipeError:
        mute(sys.stdout, 1)
    except OSError as error:
        mute(sys.stdout, 1)
        raise Refusal(
            "the output cannot be written", error.strerror, "another place for stdout", EXIT_OUTSIDE
        ) from None


def mute(stream: TextIO, number: int) -> None:
    """Discard what is left in a stream, or Python would report it at its end (library/signal, SIGPIPE)."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
    stream.flush()


def quote(word: str) -> str:
    """Return a word as a shell reads it as one."""
    plain = word and all(letter.isalnum() or letter in "-_./:=,+@%" for letter in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"
