"""What a .dockerignore leaves out of a directory, as Docker reads it (moby/patternmatcher; Docker, "Build context")."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

# As if every .dockerignore began with it, so that `!` takes any of it in: history, and what Python makes anew.
USUAL = ("**/.git", "**/.hg", "**/.svn", "**/__pycache__", ".dockerignore")
BELOW = r"(?:/.*)?"  # a pattern leaves out what is below a directory, too
# A part of a pattern, and what it is as a regular expression; sets and escaped letters are the same there.
PART = re.compile(r"(?P<deep>\*\*/?)|(?P<star>\*)|(?P<one>\?)|(?P<same>\[\^?(?:\\.|[^\]\\[])+\]|\\.)|.", re.DOTALL)
MEANT = {"star": "[^/]*", "one": "[^/]"}


class Pattern(NamedTuple):
    """A line: what it is about, and whether it takes in again what an earlier one leaves out."""

    regex: re.Pattern[str]
    keeps: bool


def parse_lines(text: str) -> list[Pattern]:
    """Return the lines of a file, behind the usual ones.

    Raises ValueError with a line that is no pattern.
    """
    return [*map(_parse_pattern, (*USUAL, *_listed_lines(text.removeprefix("\ufeff").splitlines())))]


def leaves_out(patterns: Sequence[Pattern], path: str) -> bool:
    """Return whether a path, relative to the directory, stays out: the last line that is about it decides."""
    return next((not one.keeps for one in reversed(patterns) if one.regex.fullmatch(path)), False)


def _listed_lines(lines: Iterable[str]) -> Iterator[str]:
    return (line.strip() for line in lines if line.strip() and not line.startswith("#"))


def _parse_pattern(line: str) -> Pattern:
    text = line.removeprefix("!").strip()
    clean = posixpath.normpath(text).lstrip("/")
    try:
        if not text:
            raise ValueError("nothing after it")
        return Pattern(re.compile(_pattern_regex(clean) + BELOW, re.DOTALL), line.startswith("!"))
    except (ValueError, re.error) as error:
        raise ValueError(f"{line}: {error}") from error


def _pattern_regex(clean: str) -> str:
    rest = clean.removeprefix("**")
    if rest != clean and not re.search(r"[*?\\[]", rest):  # of a plain end it is not asked where a name begins
        return rf"(?:.*{re.escape(rest)}|{re.escape(rest.lstrip('/'))})" if rest else ".*"
    return "".join(_part_regex(part, is_last=part.end() == len(clean)) for part in PART.finditer(clean))


def _part_regex(part: re.Match[str], *, is_last: bool) -> str:
    kind = part.lastgroup
    if kind == "deep":
        return ".*" if is_last else "(?:.*/)?"
    return part[0] if kind == "same" else MEANT.get(kind or "", re.escape(part[0]))
