"""What is printed: on streams that may be closed, full, or no longer read; quoted for a shell, and without secrets."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from entrypoint.errors import WORLD, Refusal

# The ends of the names of flags and variables whose values must not be in a log.
SECRET = ("token", "key", "secret", "password")


def print_error(text: object) -> None:
    """Print on stderr; where that cannot be written, the command runs all the same."""
    # Without this, print takes stdout where stderr was closed before Python started.
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        mute(sys.stderr, 2)


def print_output(text: str) -> None:
    """Print on stdout; raise Refusal if it cannot be written, but not if a reader like `head` has closed it."""
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
        raise Refusal("the output cannot be written", error.strerror, "another place for stdout", WORLD) from None


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


def hide(words: list[str]) -> list[str]:
    """Return a command line with *** for every secret: `--hub_token X`, `--api-key=X`, `HF_TOKEN=X`."""
    hidden: list[str] = []
    follows = False
    for word in words:
        name, equals, value = word.partition("=")
        secret = name.lower().endswith(SECRET)
        if follows and not word.startswith("--"):
            hidden.append("***")
            follows = False
        else:
            hidden.append(f"{name}=***" if secret and value else word)
            follows = secret and not equals and word.startswith("-")
    return hidden
