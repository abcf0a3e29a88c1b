"""Golden data: results that a change of the code must not change, as files below tests/data/golden.

Every module of this package that has golden files lists them in FILES: path below tests/data/golden -> a function
that returns the text. The tests compare, `python -m tests.golden` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

PLACE = Path(__file__).parents[1] / "data" / "golden"

REMEDY = "what was meant to change is written by `python -m tests.golden`, in a commit of its own (CONTRIBUTING.md)"

Files = Mapping[str, Callable[[], str]]


def as_json(value: object) -> str:
    """Return JSON as the files have it, a line for each item, so that a change is seen in a diff."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def recorded(path: str) -> str:
    """Return the text of a golden file; empty where nobody has written it yet."""
    file = PLACE / path
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def renew(files: Files) -> list[str]:
    """Write golden files; return the paths of those that changed."""
    changed = []
    for path, produce in files.items():
        text = produce()
        if text != recorded(path):
            (PLACE / path).parent.mkdir(parents=True, exist_ok=True)
            (PLACE / path).write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
