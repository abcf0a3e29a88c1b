"""JSON, TOML and HTML that others wrote: manifests, configurations, lists of images, locks, pages of indexes."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from html import unescape
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
    parsed: dict[str, Any] = {}
    for key, value in pairs:
        if key in parsed:
            raise ValueError(f"{key[:80]!r} is there twice")
        parsed[key] = value
    return parsed


def _list_parts(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


# TOML, read by the standard library, and on Python 3.10 by what that was made from.

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Many keys in a row, as in a.b.c.d: readers of TOML need memory by the square of their number.
_KEY = r"""\.[ \t]*(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
DEEP = re.compile(rf"{_KEY}(?:[ \t]*{_KEY}){{31}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML, which others may have written; some editors begin a file with a mark (BOM).

    Raises ValueError for what is no TOML, or is nested too deep to be read.
    """
    try:
        if DEEP.search(text):
            raise ValueError("it is nested too deep")
        return tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


# Tags of HTML that others wrote, in time by its length: html.parser takes it by the square of what is malformed.

TAG = re.compile(r"[A-Za-z][^\s/>]*")
BETWEEN, NAME, EQUALS, PLAIN = (re.compile(pattern) for pattern in (r"[\s/]*", r"[^\s/>=]+", r"\s*=\s*", r"[^\s>]*"))
# Elements of which all up to their end is text (HTML standard, "Elements": raw text and escapable raw text).
RAW = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style", "textarea", "title")}


def list_elements(text: str, wanted: Collection[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name of each tag that begins an element, and those of its attributes that are wanted.

    Of an attribute that is there twice the first one counts. What has no end is none, and nothing is behind it.
    """
    at = 0
    while (at := text.find("<", at)) >= 0:
        if text.startswith("<!--", at):
            at = _behind(text, "-->", at + 4)
        elif tag := TAG.match(text, at + 1):
            name = tag[0].lower()
            attributes, at = _read_attributes(text, tag.end(), wanted)
            if at > len(text):
                return
            yield name, attributes
            if name in RAW:
                end = RAW[name].search(text, at)
                at = end.start() if end else len(text)
        else:
            at += 1


def _read_attributes(text: str, at: int, wanted: Collection[str]) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag, and the place behind it: behind the end of the text where it has no end."""
    attributes: dict[str, str] = {}
    while True:
        at = _pass(BETWEEN, text, at)
        if at >= len(text):
            return attributes, len(text) + 1
        if text[at] == ">":
            return attributes, at + 1
        end = max(_pass(NAME, text, at), at + 1)
        name, (value, at) = text[at:end].lower(), _read_value(text, end)
        if name in wanted:
            attributes.setdefault(name, unescape(value))


def _read_value(text: str, at: int) -> tuple[str, int]:
    """Return the value behind the name of an attribute, empty where it has none, and the place behind it."""
    equals = EQUALS.match(text, at)
    if equals is None:
        return "", at
    start = equals.end()
    if (quote := text[start : start + 1]) in ("'", '"'):
        end = _behind(text, quote, start + 1)
        return text[start + 1 : end - 1], end
    end = _pass(PLAIN, text, start)
    return text[start:end], end


def _behind(text: str, end: str, at: int) -> int:
    """Return the place behind the next such end, or behind the end of the text."""
    place = text.find(end, at)
    return place + len(end) if place >= 0 else len(text) + 1


def _pass(letters: re.Pattern[str], text: str, at: int) -> int:
    match = letters.match(text, at)
    return match.end() if match else at
