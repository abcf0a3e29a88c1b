"""JSON and the like that others wrote: manifests, configurations, lists of images, locks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

DEEPEST = 100  # objects and lists within each other: the documents of images have eight
MOST = 4_000_000  # values, of which each takes some ten times its bytes: a page of 10,000 files has 150,000
WHOLE, LONGEST = range(-(2**63), 2**64), 20  # integers that programs in other languages read, and letters of one


def parse_json(data: bytes) -> Any:
    """Read JSON.

    Numbers are finite, and integers have 64 bits. Raises ValueError for what is not JSON (RFC 8259 has no NaN), has
    more than MOST values, or is nested so deep that it could be read and then not be written again; and for a key that
    an object has twice: Python takes the last value, but engines, which are written in Go, put the values of both
    together.
    """
    if sum(map(data.count, (b",", b"{", b"["))) > MOST:
        raise ValueError(f"it has more than {MOST} values")
    try:
        document = json.loads(
            data, parse_constant=_finite, parse_float=_finite, parse_int=_whole, object_pairs_hook=_object
        )
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if is_deep(document):
        raise ValueError("it is nested too deep")
    return document


def is_deep(value: object) -> bool:
    """Return whether objects and lists are within each other more than DEEPEST times."""
    inside = [value]
    for _ in range(DEEPEST):
        inside = [part for outer in inside for part in _list_parts(outer)]
    return bool(inside)


def list_unknown_keys(given: object, known: object, where: str = "") -> list[str]:
    """Return the keys of a document that another one does not have, each with the keys and numbers above it."""
    if isinstance(given, dict) and isinstance(known, dict):
        new = [f"{where}{key}" for key in given if key not in known]
        shared = [(str(key), part, known[key]) for key, part in given.items() if key in known]
    elif isinstance(given, list) and isinstance(known, list):
        new, shared = [], [(str(n), *pair) for n, pair in enumerate(zip(given, known, strict=False))]
    else:
        return []
    return [*new, *(name for key, one, other in shared for name in list_unknown_keys(one, other, f"{where}{key}."))]


def find_misspelled(value: object, known: Iterable[str]) -> str | None:
    """Return a key that engines, to which case means nothing, take for a known one; those of annotations are free."""
    exact = {key.casefold(): key for key in known}
    inside = [value]
    for item in inside:
        if isinstance(item, dict):
            if wrong := next((key for key in item if exact.get(key.casefold(), key) != key), None):
                return str(wrong)
            inside += [part for key, part in item.items() if key != "annotations"]
        elif isinstance(item, list):
            inside += item
    return None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # NaN and Infinity, and 1e999, which would be written as that
        raise ValueError(f"{text[:20]} is no number of JSON")
    return number


def _whole(text: str) -> int:
    if len(text) > LONGEST or int(text) not in WHOLE:
        raise ValueError(f"{text[:LONGEST]}... is no integer of 64 bits")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict[str, Any]()
    for key, value in pairs:
        if key in parsed:
            raise ValueError(f"{key[:80]!r} is there twice")
        parsed[key] = value
    return parsed


def _list_parts(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
