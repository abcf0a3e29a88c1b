"""What is in an image by an option alone: each field is an option of build.py, a key of its lock, and a line of a plan.

Whoever needs a value reads it from the lock; all that is between hands it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from images.host.option_fields import kind_of, option, option_key

Value = bool | str


@dataclass(frozen=True, kw_only=True)
class Content:
    """The options; one that is on or off has a default, and a text may be None."""

    trim: bool = option(True, "leave out tests, GPU parts and the like (default)")
    bytecode: bool = option(True, "compile the modules of Python (default)")


FIELDS = fields(Content)


def require_types(table: Mapping[str, Any]) -> None:
    """Raise ValueError where a lock has something else than a switch or a line of text for an option."""
    for one in FIELDS:
        value, wanted = table.get(one.name), bool if kind_of(one) == "bool" else str
        missing = value is None and wanted is str
        if not (missing or isinstance(value, wanted)) or (isinstance(value, str) and not value.isprintable()):
            raise ValueError(
                f"{option_key(one.name)}: {value!r} is no {'switch' if wanted is bool else 'line of text'}"
            )
