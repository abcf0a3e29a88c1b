"""A finished image in an OCI layout on disk, beside others that are there; two builds may write at once."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from images.host.errors import Damaged
from images.host.files import hard_link, replacing
from images.oci import indexes
from images.oci.compression import pack_layer
from images.oci.descriptors import digest_of
from images.oci.image import Image
from images.oci.indexes import LAYOUT
from images.oci.layer import Layer
from images.platforms import Platform
from images.store.blobs import BLOB, Blobs, sha256


def write_layout(path: Path, images: Sequence[Image], store: Blobs, compression: str, *, linked: bool = False) -> None:
    """Write an OCI layout: blobs first, the index last, which makes it whole.

    `images` are one for each platform, under the names of the first; their manifests say the `compression`. Other
    images in a layout that is there already stay, under their names. `linked` blobs are hard links to those of the
    store where there can be links.
    Raises Damaged when a layer is not what it should be.
    """
    written = [(one.manifest, one.platform) for one in images]
    blobs = path / "blobs" / "sha256"
    path.mkdir(parents=True, exist_ok=True)
    (path / "oci-layout").touch()  # marks an interrupted layout as one, so that the next build may continue it
    blobs.mkdir(parents=True, exist_ok=True)
    for layer in dict.fromkeys(layer for image in images for layer in image.layers):
        _write_layer(blobs, layer, store, compression, linked=linked)
    manifests = dict.fromkeys([*(one for one, _ in written), indexes.published(written)])
    for data in (*(image.config for image in images), *manifests):
        with replacing(blobs / digest_of(data).removeprefix("sha256:")) as aside:
            aside.write_bytes(data)
    _write_index(path, written, images[0].tags)


def _write_layer(blobs: Path, layer: Layer, store: Blobs, compression: str, *, linked: bool) -> None:
    digest, size, _ = pack_layer(store, layer, compression)
    if (blobs / digest).is_file() and sha256(blobs / digest) == digest:
        return
    if store.blob(digest, size=size) is None or (source := store.verified(digest, BLOB)) is None:
        raise Damaged(store.place(digest))
    copy = hard_link if linked else shutil.copyfile
    with replacing(blobs / digest) as aside:
        copy(source, aside)


def _write_index(path: Path, written: Sequence[tuple[bytes, Platform]], tags: Sequence[str]) -> None:
    """Write the index of a layout; of two builds at once, the second adds its entries to those of the first."""
    index = path / "index.json"
    with (path / "oci-layout").open("ab") as mark, replacing(index) as aside:
        with suppress(OSError):  # some shared file systems have no locks
            fcntl.flock(mark, fcntl.LOCK_EX)
        mark.truncate(0)
        mark.write(LAYOUT)
        mark.flush()
        before = index.read_bytes() if index.is_file() else b""
        aside.write_bytes(indexes.write_index(written, tags, before))
