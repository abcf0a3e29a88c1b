"""JSON and the like that others wrote: manifests, configurations, lists of images, locks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

DEEPEST = 100  # objects and lists within each other: the documents of images have eight


def parse(data: bytes) -> Any:
    """Read JSON.

    Raises ValueError for what is not JSON (RFC 8259 has no NaN), and for what is nested so deep that it could be read
    and then not be written again.
    """
    try:
        found = json.loads(data, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if is_deep(found):
        raise ValueError("it is nested too deep")
    return found


def is_deep(value: object) -> bool:
    """Return whether objects and lists are within each other more than DEEPEST times."""
    inside = [value]
    for _ in range(DEEPEST):
        inside = [part for each in inside for part in _parts(each)]
    return bool(inside)


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _parts(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
