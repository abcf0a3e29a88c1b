"""Stores for tests: some parts of the store that this machine has, so that only the others are made."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from images.store.blobs import sha256
from images.store.store import Store, default_root

# An image of the layers of the default one: where other tests have made that, a build has little left to do.
USUAL = ("--examples", "none", "--no-load")
# The image that is made soonest where nothing is there yet.
SMALL = ("--tasks", "text-generation", *USUAL)


def keep(store: Store, data: bytes, name: str = "blob") -> str:
    """Put a file into a store, and return its sha256."""
    with store.temporary() as path:
        path.write_bytes(data)
        digest = sha256(path)
        store.keep(path, digest, name)
    return digest


def store_with(directory: Path, *kinds: str, owner: int | None = None) -> dict[str, str]:
    """Make a store that has what was downloaded, and these kinds of records with what they name.

    For another `owner` its files are copies: a store has its owner's files only.
    """
    real = default_root(os.environ)
    fresh = directory / "multinode"
    (fresh / "records").mkdir(parents=True)
    for kind in kinds:
        shutil.copytree(real / "records" / kind, fresh / "records" / kind)
    records = "".join(path.read_text() for path in (fresh / "records").rglob("*") if path.is_file())
    named = set(re.findall("[0-9a-f]{64}", records))
    for blob in (real / "blobs").glob("*/*"):
        if blob.name != "blob" or blob.parent.name in named:
            (fresh / "blobs" / blob.parent.name).mkdir(parents=True, exist_ok=True)
            put = _link if owner is None else shutil.copy
            put(blob, fresh / "blobs" / blob.parent.name / blob.name)
    if owner is not None:
        for path in [directory, *directory.rglob("*")]:
            os.chown(path, owner, owner)
    return {"XDG_CACHE_HOME": str(directory)}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)
