"""The file with the figures of all parts: read, one part replaced, written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from images.host.errors import UserFault, WorldFault
from images.store.whole_files import write_whole

PARTS = ("build", "image", "start", "train", "plain", "example", "settings", "network", "network-plain", "store")
ANOTHER = "--json with another name"

# What a page needs of each part; a list has any number of what is in it.
EVERY = "*"  # stands for every key
NUMBER = (int, float)
MACHINE = {
    "cores": int, "cpu": str, "units": [str], "kernel": str, "memory_gb": int, "engine": str, "load": NUMBER,
}  # fmt: skip
FIGURES = {EVERY: {"unit": str, "values": [NUMBER]}}
PART = {
    "day": str, "runs": int, "minutes": NUMBER, "machine": MACHINE, "figures": FIGURES, "missing": {EVERY: str},
    "facts": dict,
}  # fmt: skip


def read(path: Path, remedy: str = ANOTHER) -> dict[str, Any]:
    """Return the parts of a file as JSON has them; none if there is no such file.

    Raises UserFault with the remedy when it is another file.
    """
    if not path.exists():
        return {}
    try:
        parts = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserFault("cannot read the figures", f"{path}: {error}", remedy) from error
    if not isinstance(parts, dict) or not set(parts) <= set(PARTS):
        raise UserFault("this is no file of figures", path, remedy)
    return parts


def whole(path: Path, remedy: str) -> dict[str, Any]:
    """Return the parts of a file, at least one, with everything that a page needs of them.

    Raises UserFault with the remedy when the file or something in it is missing or damaged.
    """
    parts = read(path, remedy)
    if not parts:
        raise UserFault("there are no figures to write", path, remedy)
    for name, part in parts.items():
        if flaw := _flaw(part, PART, name):
            raise UserFault("these figures are damaged", f"{path}: {flaw}", remedy)
    return parts


def _flaw(value: Any, shape: Any, place: str) -> str | None:
    """Return the first place where something is missing or is of another kind."""
    if isinstance(shape, dict) and isinstance(value, dict):
        keys = value if EVERY in shape else shape
        rows = [(value.get(key), shape.get(EVERY, shape.get(key)), f"{place}.{key}") for key in keys]
    elif isinstance(shape, list) and isinstance(value, list):
        rows = [(item, shape[0], f"{place}.{number}") for number, item in enumerate(value)]
    else:
        fits = not isinstance(shape, dict | list) and isinstance(value, shape)
        return None if fits else place
    return next(filter(None, (_flaw(*row) for row in rows)), None)


def put(path: Path, name: str, part: Mapping[str, Any]) -> None:
    """Put the figures of a part into a file in the place of earlier ones; the other parts stay.

    Raises UserFault when it is another file, WorldFault when it cannot be written; then it is as it was before.
    """
    parts = {**read(path), name: part}
    ordered = {part_name: parts[part_name] for part_name in PARTS if part_name in parts}
    try:
        # A full disk does not take the figures that were there.
        write_whole(path, f"{json.dumps(ordered, indent=1, ensure_ascii=False)}\n".encode())
    except OSError as error:
        remedy = "make room there, or --json with a name where you may write"
        raise WorldFault("cannot write the figures", f"{path} ({error.strerror or error})", remedy) from error
