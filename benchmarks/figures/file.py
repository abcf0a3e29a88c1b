"""The file with the figures of all parts: read, one part replaced, written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from images.host.errors import UserFault, WorldFault
from images.oci.image import replacing

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
    """Put the figures of a part into a file in the place of earlier ones; the other parts stay.

    Raises UserFault when it is another file, WorldFault when it cannot be written; then it is as it was before.
    """
    parts = {**read(path), name: part}
    ordered = {each: parts[each] for each in PARTS if each in parts}
    try:
        with replacing(Path(os.path.realpath(path))) as aside:  # a full disk does not take the figures that were there
            aside.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        remedy = "make room there, or --json with a name where you may write"
        raise WorldFault("cannot write the figures", f"{path} ({error.strerror or error})", remedy) from error
