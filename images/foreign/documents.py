"""JSON that others wrote: manifests, configurations, lists of images."""

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
    inside = [found]
    for _ in range(DEEPEST):
        inside = [part for value in inside for part in _parts(value)]
        if not inside:
            return found
    raise ValueError("it is nested too deep")


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _parts(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
