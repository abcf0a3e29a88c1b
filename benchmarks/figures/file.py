"""The file with the figures of all parts: read, one part replaced, written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from images.host.errors import UserFault

PARTS = ("build", "image", "start", "train", "store")


def read(path: Path) -> dict[str, Any]:
    """Return the parts of a file as JSON has them; none if there is no such file.

    Raises UserFault when it is another file.
    """
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserFault("cannot read the figures", f"{path}: {error}", "--json with another name") from error
    if not isinstance(found, dict) or not set(found) <= set(PARTS):
        raise UserFault("this is no file of figures", path, "--json with another name")
    return found


def put(path: Path, name: str, part: Mapping[str, Any]) -> None:
    """Put the figures of a part into a file in the place of earlier ones; the other parts stay."""
    parts = {**read(path), name: part}
    ordered = {each: parts[each] for each in PARTS if each in parts}
    path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
