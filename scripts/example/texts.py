"""Descriptions of Debian packages, and the section of the archive that each package is in: text that can be classified.

They are the one-line descriptions in the index of packages that every image is built from, so no account and no hub is
needed, and everybody has the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from images.debian.archive import Paragraph

# The sections of a subject. Those of a language would be told by its name: perl, python, golang.
SECTIONS = (
    "admin", "database", "editors", "electronics", "fonts", "games", "gnome", "graphics", "hamradio", "kde",
    "mail", "math", "net", "science", "sound", "text", "utils", "video", "web", "x11",
)  # fmt: skip
SEED, TESTED = 1, 1500


def choose_texts(packages: Iterable[Paragraph]) -> list[dict[str, str]]:
    """Return text and section of the first package of each source in one of SECTIONS, in an order from a seed."""
    rows = [{"text": text, "section": section} for text, section in _list_sources(packages) if section in SECTIONS]
    random.Random(SEED).shuffle(rows)
    return rows


def _list_sources(packages: Iterable[Paragraph]) -> Iterator[tuple[str, str]]:
    known = set()
    for package in packages:
        source = (package.get("Source") or package["Package"]).partition(" ")[0]  # "name (version)"
        if source not in known:
            known.add(source)
            yield package.get("Description"), package.get("Section")


def write_texts(rows: list[dict[str, str]], place: Path) -> dict[str, int]:
    """Write `test.json` and `train.json`, an object a line, into a directory; return how many each has."""
    parts = {"test.json": rows[:TESTED], "train.json": rows[TESTED:]}
    for name, part in parts.items():
        (place / name).write_text("".join(f"{json.dumps(row)}\n" for row in part))
    return {name: len(part) for name, part in parts.items()}
