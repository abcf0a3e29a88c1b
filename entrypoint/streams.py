"""What is printed: on streams that may be closed, full, or no longer read; quoted for a shell, and without secrets."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from entrypoint.errors import WORLD, Refusal

# How the names of flags and variables end whose values must not be seen in a log.
SECRET = ("token", "key", "secret", "password")


def print_error(text: object) -> None:
    """Print on stderr; a log that nobody can write is no reason not to run."""
    # Without this, print takes stdout where stderr was closed before Python started.
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        mute(sys.stderr, 2)


def print_output(text: str) -> None:
    """Print on stdout, and refuse if it cannot be written; a reader who has seen enough, like `head`, is none."""
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
    """Let what is left in a stream go nowhere, or Python would complain of it at its end (library/signal, SIGPIPE)."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
    stream.flush()


def quote(word: str) -> str:
    """Write a word so that a shell reads it as one."""
    plain = word and all(letter.isalnum() or letter in "-_./:=,+@%" for letter in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"


def hide(words: list[str]) -> list[str]:
    """Put *** in place of every secret on a command line: `--hub_token X`, `--api-key=X`, `HF_TOKEN=X`."""
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
