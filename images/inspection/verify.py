"""Whether an image is what its lock says: built again, and compared layer by layer."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO

from images.host.store import CHUNK
from images.inspection.opened import Inside, entries
from images.oci.image import Image


@dataclass(frozen=True)
class Difference:
    """The first thing that differs: the layer, the path in it, and what stands on either side."""

    layer: str
    path: str
    image: str
    rebuilt: str

    @property
    def text(self) -> str:
        """Put it into a line."""
        place = f"layer {self.layer}" + (f", /{self.path}" if self.path else "")
        return f"{place}: {self.image} in the image, {self.rebuilt} rebuilt"


def compare(inside: Inside, made: Image, ours: Sequence[Path]) -> Difference | None:
    """Compare an image with the one built from its lock; `ours` are the files of our layers, from the lowest.

    None means that every layer and the configuration are the same, so the image id is.
    """
    names = [part.name for part in made.parts]
    mine = [part.written.diff_id for part in made.parts]
    for name, theirs, here, image_layer, our_layer in zip_longest(names, inside.diff_ids, mine, inside.layers, ours):
        if theirs is None or here is None:
            return Difference(name or "above ours", "", *_counts(inside, made))
        if theirs != here:
            return _first(name, image_layer, our_layer) or Difference(name, "", f"sha256:{theirs}", f"sha256:{here}")
    return None


def _counts(inside: Inside, made: Image) -> tuple[str, str]:
    return f"{len(inside.layers)} layers", f"{len(made.parts)} layers"


def _first(name: str, theirs: Path, ours: Path) -> Difference | None:
    """Find the first entry that differs, in the order of our layer."""
    left, right = _listing(theirs), _listing(ours)
    for path in [*right, *(path for path in left if path not in right)]:
        if left.get(path) != right.get(path):
            return Difference(name, path, left.get(path, "absent"), right.get(path, "absent"))
    order = next((pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]), None)
    return Difference(name, order[0], "another order of files", "") if order else None


def _listing(layer: Path) -> dict[str, str]:
    """Describe every entry of a layer: sha256 of a file's content, and what else decides the bytes."""
    return {info.name: _describe(info, data) for info, data in entries(layer)}


def _describe(info: tarfile.TarInfo, data: IO[bytes] | None) -> str:
    rest = f"mode {info.mode:o} owner {info.uid}:{info.gid} time {int(info.mtime)}"
    if data is None:
        return f"{_kind(info)} {info.linkname} {rest}".replace("  ", " ")
    hashed = hashlib.sha256()
    while chunk := data.read(CHUNK):
        hashed.update(chunk)
    return f"sha256:{hashed.hexdigest()} {rest}"


def _kind(info: tarfile.TarInfo) -> str:
    kinds = ((info.isdir(), "folder"), (info.issym(), "link to"), (info.islnk(), "hard link to"))
    return next((kind for found, kind in kinds if found), "special file")
