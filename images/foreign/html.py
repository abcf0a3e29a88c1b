"""Tags of HTML that others wrote, in time by its length: html.parser takes it by the square of what is malformed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from html import unescape

TAG = re.compile(r"[A-Za-z][^\s/>]*")
BETWEEN, NAME, EQUALS, PLAIN = (re.compile(each) for each in (r"[\s/]*", r"[^\s/>=]+", r"\s*=\s*", r"[^\s>]*"))
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
    attributes = dict[str, str]()
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
