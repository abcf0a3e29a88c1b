"""What is in an image by an option alone: each field is an option of build.py, a key of its lock, and a line of a plan.

Whoever needs a value reads it from the lock; all that is between hands it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Value = bool | str


def _option(default: Value | None, text: str, metavar: str | None = None) -> Any:
    """Return a field: its default, what --help says, and for a text what stands for it there."""
    return field(default=default, metadata={"help": text, "metavar": metavar})


@dataclass(frozen=True, kw_only=True)
class Content:
    """The options; one that is on or off has a default, and a text may be None."""

    trim: bool = _option(True, "leave out tests, GPU parts and the like (default)")
    bytecode: bool = _option(True, "compile the modules of Python (default)")


FIELDS = fields(Content)


def is_switch(name: str) -> bool:
    """Return whether an option is on or off, and no text."""
    return isinstance(getattr(Content(), name), bool)


def option_key(name: str) -> str:
    """Return how an option is written in a lock, and after two hyphens on a command line."""
    return name.replace("_", "-")


def require_types(table: Mapping[str, Any]) -> None:
    """Raise ValueError where a lock has something else than a switch or a line of text for an option."""
    for one in FIELDS:
        value, wanted = table.get(one.name), bool if is_switch(one.name) else str
        missing = value is None and wanted is str
        if not (missing or isinstance(value, wanted)) or (isinstance(value, str) and not value.isprintable()):
            raise ValueError(
                f"{option_key(one.name)}: {value!r} is no {'switch' if wanted is bool else 'line of text'}"
            )
