"""What is in an image by an option alone: each field is an option of build.py, a key of its lock, and a line of a plan.

Whoever needs a value reads it from the lock; all that is between hands it on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

LINES = "tuple[str, ...]"
EVERY = "build plan lock bundle"  # the commands that have a request


def option(
    default: bool | int | str | None,
    text: str,
    metavar: str | None = None,
    *,
    commands: str = EVERY,
    choices: Collection[str] | Collection[int] | None = None,
) -> Any:
    """Return a field: its default, what --help says and shows for a value, and the commands that take it."""
    return field(default=default, metadata={"help": text, "metavar": metavar, "commands": commands, "choices": choices})


def kind_of(one: Field[Any]) -> str:
    """Return what a field takes: bool for one that is on or off, int for a whole number, str for a line of text.

    One that may be typed more than once takes LINES.
    """
    return str(one.type).removesuffix(" | None")


def is_free_text(one: Field[Any]) -> bool:
    """Return whether a field takes text of the user's own: it has a reader (options.py), which refuses secrets."""
    return kind_of(one) in ("str", LINES) and one.metadata["choices"] is None


def option_key(name: str) -> str:
    """Return how an option is written in a lock, and after two hyphens on a command line."""
    return name.replace("_", "-")


Value = bool | int | str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Content:
    """The options; one that is on or off has a default, and a number, a text, or several texts, may be None."""

    trim: bool = option(True, "leave out tests, GPU parts and the like (default)")
    bytecode: bool = option(True, "compile the modules of Python (default)")
    env: tuple[str, ...] | None = option(None, "a variable of the image, more than once for more", "NAME=VALUE")
    no_import: tuple[str, ...] | None = option(
        None, "a package that the check at the end need not import, more than once for more", "PACKAGE"
    )


FIELDS = fields(Content)
WORDS = {"bool": "switch", "int": "whole number", LINES: "list of lines"}  # what an option is, by its kind


def require_types(table: Mapping[str, Any]) -> None:
    """Raise ValueError where a lock has for an option what its kind or its choices do not allow."""
    for one in FIELDS:
        value, kind, choices = table.get(one.name), kind_of(one), one.metadata["choices"]
        if not _fits(value, kind):
            raise ValueError(f"{option_key(one.name)}: {value!r} is no {WORDS.get(kind, 'line of text')}")
        if choices is not None and value is not None and value not in choices:
            raise ValueError(f"{option_key(one.name)}: {value!r} is none of {', '.join(map(str, choices))}")


def _fits(value: object, kind: str) -> bool:
    """Return whether an option of a kind may have a value; all but switches may have none."""
    if kind == "bool" or value is None:
        return isinstance(value, bool) == (kind == "bool")
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    lines = value if isinstance(value, list) else [value]
    return isinstance(value, list) == (kind == LINES) and all(map(_is_line, lines))


def read_content(table: Mapping[str, Any]) -> Content:
    """Return the options of a lock, whose names have no hyphens.

    Raises ValueError as `require_types` does.
    """
    require_types(table)
    values: dict[str, Any] = {one.name: table.get(one.name) for one in FIELDS}
    return Content(**{name: tuple(one) if isinstance(one, list) else one for name, one in values.items()})  # type: ignore[arg-type]


def _is_line(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()
