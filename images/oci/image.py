"""A finished image: its names, layers, configuration and manifest; in one tar, or in an OCI layout on disk."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from images.host.errors import Damaged
from images.host.files import hard_link, replacing
from images.oci import indexes, layer_writer, manifest
from images.oci.compression import pack_layer, stream_uncompressed
from images.oci.indexes import LAYOUT
from images.oci.layer import Layer
from images.oci.manifest import digest_of, encode, write_manifest
from images.platforms import PLATFORMS, Platform
from images.store.blobs import BLOB, Blobs, read_chunks, sha256


@dataclass(frozen=True)
class Image:
    """A finished image; `id` is the digest of the configuration, `digest` that of the manifest in registry form.

    `tags` are its names, such as NAME:TAG or HOST/NAME:TAG, at least one; `annotations` are those of its manifest.
    """

    tags: tuple[str, ...]
    config: bytes
    manifest: bytes
    layers: tuple[Layer, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def tag(self) -> str:
        """Return the first of its names, which is the one that is shown."""
        return self.tags[0]

    @property
    def platform(self) -> Platform:
        """Return what it is for, as its configuration says."""
        stated = json.loads(self.config)
        return next(
            platform
            for platform in PLATFORMS
            if (platform.os, platform.architecture) == (stated["os"], stated["architecture"])
        )

    @property
    def id(self) -> str:
        return f"sha256:{hashlib.sha256(self.config).hexdigest()}"

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.manifest).hexdigest()}"


def write_config(
    layers: Sequence[Layer], platform: Platform, settings: Mapping[str, Any], created: str,
    below: Sequence[Mapping[str, Any]] = (),
) -> bytes:  # fmt: skip
    """Write the configuration; `settings` is the part that a container starts from, `created` an RFC 3339 time.

    `below` is the history of somebody else's base, which speaks for its layers.
    """
    written = [layer for layer in layers if layer.packed is None]
    history = [*below, *({"created": created, "created_by": f"multinode: {layer.name}"} for layer in written)]
    diff_ids = [f"sha256:{layer.written.diff_id}" for layer in layers]
    return encode(
        {
            "architecture": platform.architecture,
            "os": platform.os,
            "created": created,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        }
    )


def published_digest(images: Sequence[Image]) -> str:
    """Return by which digest a registry knows an image that there is for each of some platforms."""
    return digest_of(indexes.published([(image.manifest, image.platform) for image in images]))


def registry_manifest(
    config: bytes,
    layers: tuple[Layer, ...],
    store: Blobs,
    compression: str,
    annotations: Mapping[str, str] | None = None,
) -> bytes:
    """Write the manifest as a registry has it."""
    return write_manifest(config, [pack_layer(store, layer, compression) for layer in layers], annotations)


# A finished image in one tar, which every engine loads.


def stream_archive(image: Image, store: Blobs, skip: int = 0) -> Iterator[bytes]:
    """Yield an archive that is both `docker load`'s and an OCI layout, layers uncompressed: it loads everywhere.

    The first `skip` layers are named in it and not contained.
    """
    diff_ids = [layer.written.diff_id for layer in image.layers]
    written = archived_manifest(image)
    parts = {
        "oci-layout": LAYOUT,
        "index.json": indexes.write_index([(written, image.platform)], image.tags),
        "manifest.json": _for_docker(image.config, diff_ids, image.tags),
        **{_blob(digest_of(data)): data for data in (image.config, written)},
    }
    for name, data in parts.items():
        yield from layer_writer.stream_file(name, len(data), (data,))
    for layer in image.layers[skip:]:
        yield from layer_writer.stream_file(
            _blob(layer.written.diff_id), layer.written.unpacked, stream_uncompressed(store, layer)
        )
    yield layer_writer.END


def archived_manifest(image: Image) -> bytes:
    """Write the manifest of the archive, by whose digest containerd knows what was loaded."""
    layers = [(layer.written.diff_id, layer.written.unpacked, "none") for layer in image.layers]
    return manifest.write_manifest(image.config, layers, image.annotations)


def write_archive(path: Path, image: Image, store: Blobs) -> None:
    """Write the archive to a file."""
    with path.open("wb") as file:
        for chunk in stream_archive(image, store):
            file.write(chunk)


def file_archive(name: str, path: Path) -> Iterator[bytes]:
    """Yield an archive of one file."""
    with path.open("rb") as file:
        yield from layer_writer.stream_file(name, path.stat().st_size, read_chunks(file))
    yield layer_writer.END


def _blob(digest: str) -> str:
    return "blobs/sha256/" + digest.removeprefix("sha256:")


def _for_docker(config: bytes, diff_ids: Sequence[str], tags: Sequence[str]) -> bytes:
    """Write the manifest.json that `docker load` of every age reads (Docker image specification v1.2)."""
    blobs = [f"blobs/sha256/{diff_id}" for diff_id in diff_ids]
    name = digest_of(config).removeprefix("sha256:")
    return encode([{"Config": f"blobs/sha256/{name}", "RepoTags": list(tags), "Layers": blobs}])


# A finished image in an OCI layout on disk, beside others that are there; two builds may write at once.


def write_layout(path: Path, images: Sequence[Image], store: Blobs, compression: str, *, linked: bool = False) -> None:
    """Write an OCI layout: blobs first, the index last, which makes it whole.

    `images` are one for each platform, under the names of the first; their manifests say the `compression`. Other
    images in a layout that is there already stay, under their names. `linked` blobs are hard links to those of the
    store where there can be links.
    Raises Damaged when a layer is not what it should be.
    """
    written = [(one.manifest, one.platform) for one in images]
    blobs = path / "blobs" / "sha256"
    path.mkdir(exist_ok=True)
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
