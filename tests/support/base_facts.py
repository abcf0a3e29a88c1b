"""What the builder finds in a root file system of a few files."""

from __future__ import annotations

import io

from images.base.base import Facts
from images.base.inspect import gather, keep_text
from images.base.overlay import Keep, OverlayTree
from images.foreign.tars import Tar
from images.platforms import AMD64
from tests.support.stand_in import Files, layer


def tree_of(*layers: Files, keep: Keep = keep_text) -> OverlayTree:
    """Lay layers of files over each other, from the lowest."""
    tree = OverlayTree()
    for files in layers:
        tree.add(Tar(io.BytesIO(layer(files))), keep)
    return tree


def facts_of(*layers: Files, path: str = "/usr/local/bin:/usr/bin") -> Facts:
    """Inspect layers of files; `path` is the image's PATH."""
    return gather(tree_of(*layers), {"PATH": path}, AMD64)
