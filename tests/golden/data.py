"""Golden data: results that a change of the code must not change, as files in directories below tests/data/golden.

A module that makes golden data has a function `produce`, which returns the files of one directory as name -> text.
The tests compare, `python -m tests.golden` writes.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path

PLACE = Path(__file__).parents[1] / "data" / "golden"
REMEDY = "what was meant to change is written by `python -m tests.golden`, in a commit of its own (CONTRIBUTING.md)"


def as_json(value: object) -> str:
    """Return JSON as the files have it, a line for each item, so that a change is seen in a diff."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def recorded(directory: str) -> dict[str, str]:
    """Return the files of a directory as name -> text."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((PLACE / directory).glob("*.*"))}


def difference(directory: str, name: str, text: str) -> str:
    """Return what differs between a golden file and `text`, as diff(1) shows it; empty where nothing does."""
    return compare(recorded(directory).get(name, ""), text, f"{directory}/{name}")


def compare(known: str, text: str, name: str) -> str:
    """Return what differs between two texts, as diff(1) shows it; empty where nothing does."""
    return "\n".join(difflib.unified_diff(known.splitlines(), text.splitlines(), name, "now", n=1))


def renew(directory: str, texts: Mapping[str, str]) -> list[str]:
    """Write the files of a directory and remove those that are none of them; return the names of what changed."""
    known, place = recorded(directory), PLACE / directory
    place.mkdir(parents=True, exist_ok=True)
    changed = [name for name, text in texts.items() if text != known.get(name)]
    for name in changed:
        (place / name).write_text(texts[name], encoding="utf-8")
    gone = sorted(known.keys() - texts.keys())
    for name in gone:
        (place / name).unlink()
    return [*changed, *gone]
