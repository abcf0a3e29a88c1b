"""An option of build.py that is declared as a field of a dataclass, which whoever reads it is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, field
from typing import Any

LINES = "tuple[str, ...]"
EVERY = "build plan lock bundle"  # the commands that have a request


def option(
    default: bool | int | str | None,
    text: str,
    metavar: str | None = None,
    *,
    commands: str = EVERY,
    choices: Iterable[str] | None = None,
) -> Any:
    """Return a field: its default, what --help says and shows for a value, and the commands that take it."""
    return field(default=default, metadata={"help": text, "metavar": metavar, "commands": commands, "choices": choices})


def kind_of(one: Field[Any]) -> str:
    """Return what a field takes: bool for one that is on or off, int for a whole number, str for a line of text.

    One that may be typed more than once takes LINES.
    """
    return str(one.type).removesuffix(" | None")


def option_key(name: str) -> str:
    """Return how an option is written in a lock, and after two hyphens on a command line."""
    return name.replace("_", "-")
