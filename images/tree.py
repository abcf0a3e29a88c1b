"""A layer, unpacked for its interpreter: what the base's Python needs to run outside an image."""

from __future__ import annotations

import tarfile
from pathlib import Path

import zstandard

from images.errors import WorldFault
from images.store import Store

NEEDED = ("usr/bin/python3", "usr/lib/python3", "usr/lib/x86_64-linux-gnu/")


def unpack(store: Store, digest: str) -> Path:
    """Unpack the interpreter of a base layer once; answer the root folder. No root needed: owners are not kept."""
    root = store.tree(digest)
    if not root.is_dir():
        with store.aside(folder=True) as aside:
            _extract(store, digest, aside / "root")
            root.parent.mkdir(exist_ok=True)
            try:
                (aside / "root").rename(root)
            except OSError:
                if not root.is_dir():  # another build may have been first
                    raise
    return root


def _extract(store: Store, digest: str, root: Path) -> None:
    path = store.blob(digest)
    if path is None:
        raise WorldFault("the store lost a file while it was in use", digest, "build again")
    with (
        path.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as tar,
    ):
        tar.extraction_filter = lambda member, _: member  # our own tar; Python before 3.11.4 has no other way to say it
        for info in tar:
            if info.name.startswith(NEEDED) and (info.isreg() or info.issym() or info.islnk()):
                tar.extract(info, root)
