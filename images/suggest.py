"""The nearest thing that exists to a thing that does not."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from packaging.version import Version


def nearest_version(wanted: Version, known: Iterable[Version]) -> Version:
    """Find the newest release that is not later than `wanted`, or the oldest of all where every one is later."""
    every = sorted(known)
    return max((version for version in every if version <= wanted), default=every[0])


def close_match(word: str, known: Collection[str]) -> str | None:
    """Find the word that was probably meant, or None."""
    return next(iter(difflib.get_close_matches(word, known, n=1)), None)
