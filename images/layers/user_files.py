"""The layer of the user's own files: kept in the store as they were read, and written into the working directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from images.host.errors import WorldFault
from images.layers.entrypoint_layer import DIRECTORIES, GID, UID, WRITABLE
from images.oci.layer import Directories
from images.oci.layer_writer import LayerWriter
from images.plan.user_files import USER_FILE, WORKSPACE, UserFile
from images.store.blobs import CHUNK, copied
from images.store.store import Store

NAME = "your files"  # of the layer, the last one


def keep_user_files(files: Mapping[UserFile, Path], store: Store) -> None:
    """Bring files into the store; raise WorldFault for one that has changed since it was read."""
    for row, place in files.items():
        if row.sha256 is None or store.verified(row.sha256, USER_FILE):
            continue
        with store.temporary() as aside:
            with place.open("rb") as source, aside.open("wb") as file:
                got, _ = copied(iter(partial(source.read, CHUNK), b""), file.write)
            if got != row.sha256:
                raise WorldFault("a file of your own changed while it was read", place, "run it again")
            store.keep(aside, got, USER_FILE)


def directories_below(base: Directories) -> Directories:
    """Return the directories that exist below this layer: those of the base and of the layers between."""
    return replace(base, owners={**base.owners, **dict.fromkeys(DIRECTORIES, (WRITABLE, UID, GID))})


def write_user_files(layer: LayerWriter, files: Iterable[UserFile], store: Store) -> None:
    """Fill the layer: files are root's, to be read by everybody, as COPY leaves them."""
    for row in files:
        path = f"{WORKSPACE}/{row.path}"
        if row.target is not None:
            layer.link(path, row.target)
        elif row.sha256 is not None:
            place, mode = store.whole(row.sha256, USER_FILE), 0o755 if row.executable else 0o644
            with place.open("rb") as file:
                chunks = iter(partial(file.read, CHUNK), b"")
                layer.stream(path, chunks, row.sha256, place.stat().st_size, mode)
