"""A finished image: its names, its configuration, and how it is written as an archive or as an OCI layout."""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images.host.errors import Damaged, UserFault, WorldFault
from images.host.files import link, replacing
from images.host.store import Store, sha256
from images.oci import manifest
from images.oci.compression import packed, uncompressed
from images.oci.layer import EPOCH, Layer
from images.oci.manifest import digest_of, encode

LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'  # the content of the file oci-layout


@dataclass(frozen=True)
class Image:
    """A finished image; `id` is the digest of the configuration, `digest` that of the manifest in registry form.

    `tags` are its names, such as NAME:TAG or HOST/NAME:TAG, at least one.
    """

    tags: tuple[str, ...]
    config: bytes
    manifest: bytes
    layers: tuple[Layer, ...]

    @property
    def tag(self) -> str:
        """Return the first of its names, which is the one that is shown."""
        return self.tags[0]

    @property
    def id(self) -> str:
        return digest_of(self.config)

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


def config(
    layers: Sequence[Layer], settings: Mapping[str, Any], created: str, below: Sequence[Mapping[str, Any]] = ()
) -> bytes:
    """Write the configuration; `settings` is the part that a container starts from, `created` an RFC 3339 time.

    `below` is the history of somebody else's base, which speaks for its layers.
    """
    own = [layer for layer in layers if layer.packed is None]
    history = [*below, *({"created": created, "created_by": f"multinode: {layer.name}"} for layer in own)]
    diff_ids = [f"sha256:{layer.written.diff_id}" for layer in layers]
    return encode(
        {
            "architecture": "amd64",
            "os": "linux",
            "created": created,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        }
    )


def archive(image: Image, store: Store, skip: int = 0) -> Iterator[bytes]:
    """Yield an archive that is both `docker load`'s and an OCI layout, layers uncompressed: it loads everywhere.

    The first `skip` layers are named in it and not contained.
    """
    diff_ids = [layer.written.diff_id for layer in image.layers]
    written = archived_manifest(image)
    yield from _entry("oci-layout", LAYOUT)
    yield from _entry("index.json", manifest.write_index(written, image.tags))
    yield from _entry("manifest.json", manifest.write_docker(image.config, diff_ids, image.tags))
    for data in (image.config, written):
        yield from _entry(_blob(digest_of(data)), data)
    for layer in image.layers[skip:]:
        yield _header(_blob(layer.written.diff_id), layer.written.unpacked)
        yield from uncompressed(store, layer)
        yield bytes(-layer.written.unpacked % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def archived_manifest(image: Image) -> bytes:
    """Write the manifest of the archive, by whose digest containerd knows what was loaded."""
    return manifest.write(image.config, [(p.written.diff_id, p.written.unpacked, "none") for p in image.layers])


def write_archive(path: Path, image: Image, store: Store) -> None:
    """Write the archive to a file."""
    with path.open("wb") as file:
        for chunk in archive(image, store):
            file.write(chunk)


def _blob(digest: str) -> str:
    return "blobs/sha256/" + digest.removeprefix("sha256:")


def file_header(name: str, size: int) -> tarfile.TarInfo:
    """Return the header of a file (mode 644, root's, the fixed time) in a tar that has to be the same every time."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, EPOCH
    return info


def _header(name: str, size: int) -> bytes:
    return file_header(name, size).tobuf(tarfile.PAX_FORMAT)


def _entry(name: str, data: bytes) -> Iterator[bytes]:
    yield _header(name, len(data))
    yield data
    yield bytes(-len(data) % tarfile.BLOCKSIZE)


@dataclass(frozen=True)
class Target:
    """Where an image is written to: a path without links, and whether it becomes a layout or an archive there."""

    path: Path
    is_layout: bool


def output_target(text: str) -> Target:
    """Return what the user means by a path: a layout where it ends in `/` or is a directory, an archive elsewhere.

    Raises UserFault for what is there and is no archive and no layout: a device, a pipe, a directory of other things.
    """
    path = Path(os.path.realpath(text))
    if path.is_symlink():
        raise UserFault("what is there is a link to itself", text, "--output with a path that is new, or an archive")
    if not path.parent.is_dir():
        raise UserFault("no such directory", path.parent, "--output with a path in a directory that exists")
    if not text.endswith("/") and not path.is_dir():
        if path.exists() and not path.is_file():
            raise UserFault("what is there is not a file", text, "--output with a path that is new, or an archive")
        return Target(path, is_layout=False)
    if path.exists() and not path.is_dir():
        raise UserFault("what is there is not a directory", text, "--output with another name, or without the /")
    if path.is_dir() and any(path.iterdir()) and not (path / "oci-layout").is_file():
        raise UserFault(
            "that directory has other things in it", text, "--output with one that is new, empty or a layout"
        )
    return Target(path, is_layout=True)


def save(place: Target, image: Image, store: Store, compression: str) -> None:
    """Write an image to its place; what is there already stays as it was until the new one is whole.

    Raises WorldFault when it cannot be written.
    """
    try:
        if place.is_layout:
            write_layout(place.path, image, store, compression)
        else:
            with replacing(place.path) as aside:
                write_archive(aside, image, store)
    except OSError as error:
        remedy = "--output with a path that can be written and has room for the image"
        raise WorldFault("cannot write the image", f"{place.path} ({error.strerror})", remedy) from error


def write_layout(path: Path, image: Image, store: Store, compression: str, *, linked: bool = False) -> None:
    """Write an OCI layout: blobs first, the index last, which makes it whole.

    Other images in a layout that is there already stay, under their names. `linked` blobs are hard links to those of
    the store where there can be links, for a reader that hashes them.
    Raises Damaged when a layer is not what it should be.
    """
    written = registry_manifest(image.config, image.layers, store, compression)
    blobs = path / "blobs" / "sha256"
    path.mkdir(parents=True, exist_ok=True)
    (path / "oci-layout").touch()  # marks an interrupted layout as one, so that the next build may continue it
    blobs.mkdir(parents=True, exist_ok=True)
    for layer in image.layers:
        _write_layer(blobs, layer, store, compression, linked=linked)
    for data in (image.config, written):
        with replacing(blobs / digest_of(data).removeprefix("sha256:")) as aside:
            aside.write_bytes(data)
    _write_index(path, written, image.tags)


def _write_layer(blobs: Path, layer: Layer, store: Store, compression: str, *, linked: bool) -> None:
    digest, size, _ = packed(store, layer, compression)
    if _is_there(blobs / digest, digest, linked=linked):
        return
    source = store.blob(digest, size=size)
    if source is None or not (linked or store.whole(digest, source.name)):
        raise Damaged(store.place(digest))
    copy = link if linked else shutil.copyfile
    with replacing(blobs / digest) as aside:
        copy(source, aside)


def _write_index(path: Path, written: bytes, tags: Sequence[str]) -> None:
    """Write the index of a layout; of two builds at once, the second adds its entries to those of the first."""
    index = path / "index.json"
    with (path / "oci-layout").open("ab") as mark, replacing(index) as aside:
        with suppress(OSError):  # some shared file systems have no locks
            fcntl.flock(mark, fcntl.LOCK_EX)
        mark.truncate(0)
        mark.write(LAYOUT)
        mark.flush()
        aside.write_bytes(manifest.write_index(written, tags, index.read_bytes() if index.is_file() else b""))


def _is_there(place: Path, digest: str, *, linked: bool) -> bool:
    """Return whether a layout has a blob, undamaged; a layout of links is new, and who reads it checks the hashes."""
    return place.is_file() and (linked or sha256(place) == digest)


def registry_manifest(config: bytes, layers: tuple[Layer, ...], store: Store, compression: str) -> bytes:
    """Write the manifest as a registry has it."""
    return manifest.write(config, [packed(store, layer, compression) for layer in layers])
