"""JSON that others wrote, with numbers that are finite or have 64 bits, and bounds of depth and of what it takes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, Callable

# Objects and lists within each other, of which ours have four and configurations of models ten.
DEEPEST = 100
# Values, each of which takes some thirty times its bytes: a list of all packages of an image has 20,000.
MOST_VALUES = 1_000_000
# Integers that programs in other languages read, and letters of one.
WHOLE, LONGEST = range(-(2**63), 2**64), 20


def parse_json(text: str | bytes, most: int = MOST_VALUES) -> Any:
    """Return what a text of JSON has; most: values in it.

    Raise ValueError for what is no JSON, for a number that is not finite or has more than 64 bits, for more values, and
    for what is nested so deep that a walk through it would not end well.
    """
    return _parse(text, most, _read_finite)


def parse_logged(text: str | bytes, most: int = MOST_VALUES) -> Any:
    """Return what a text has that Python wrote: as JSON, but with the words NaN and Infinity, of a loss that has none.

    Raise ValueError as `parse_json` does.
    """
    return _parse(text, most, float)


def _parse(text: str | bytes, most: int, read_word: Callable[[str], float]) -> Any:
    if isinstance(text, bytes):
        text = text.decode("utf-8")  # json would take any other encoding
    if sum(map(text.count, ",[{")) > most:
        raise ValueError(f"more than {most} values")
    try:
        document = json.loads(text, parse_constant=read_word, parse_float=_read_finite, parse_int=_read_whole)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if _is_deep(document):
        raise ValueError("nested too deep")
    return document


def _read_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:LONGEST]} is no number of JSON")
    return number


def _read_whole(text: str) -> int:
    if len(text) > LONGEST or int(text) not in WHOLE:
        raise ValueError(f"{text[:LONGEST]}... is no integer of 64 bits")
    return int(text)


def _is_deep(value: object) -> bool:
    inside, depth = [value], 0
    while inside and depth < DEEPEST:
        inside, depth = [part for outer in inside for part in _list_inner(outer)], depth + 1
    return bool(inside)


def _list_inner(value: object) -> Iterable[object]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (part for part in parts if isinstance(part, (dict, list)))
