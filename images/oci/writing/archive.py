"""A finished image in one tar, which every engine loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from images.oci import indexes, manifest
from images.oci.compression import stream_uncompressed
from images.oci.descriptors import digest_of, encode
from images.oci.image import Image
from images.oci.indexes import LAYOUT
from images.oci.writing import tars
from images.store.blobs import CHUNK, Blobs


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
        yield from tars.stream_file(name, len(data), (data,))
    for layer in image.layers[skip:]:
        yield from tars.stream_file(
            _blob(layer.written.diff_id), layer.written.unpacked, stream_uncompressed(store, layer)
        )
    yield tars.END


def archived_manifest(image: Image) -> bytes:
    """Write the manifest of the archive, by whose digest containerd knows what was loaded."""
    return manifest.write_manifest(
        image.config, [(p.written.diff_id, p.written.unpacked, "none") for p in image.layers]
    )


def write_archive(path: Path, image: Image, store: Blobs) -> None:
    """Write the archive to a file."""
    with path.open("wb") as file:
        for chunk in stream_archive(image, store):
            file.write(chunk)


def file_archive(name: str, path: Path) -> Iterator[bytes]:
    """Yield an archive of one file."""
    with path.open("rb") as file:
        yield from tars.stream_file(name, path.stat().st_size, iter(partial(file.read, CHUNK), b""))
    yield tars.END


def _blob(digest: str) -> str:
    return "blobs/sha256/" + digest.removeprefix("sha256:")


def _for_docker(config: bytes, diff_ids: Sequence[str], tags: Sequence[str]) -> bytes:
    """Write the manifest.json that `docker load` of every age reads (Docker image specification v1.2)."""
    blobs = [f"blobs/sha256/{diff_id}" for diff_id in diff_ids]
    name = digest_of(config).removeprefix("sha256:")
    return encode([{"Config": f"blobs/sha256/{name}", "RepoTags": list(tags), "Layers": blobs}])
