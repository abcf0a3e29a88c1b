"""A finished image in one tar, which every engine loads."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from images.host.store import CHUNK, Store
from images.model import Image
from images.oci import indexes, manifest
from images.oci.compression import uncompressed
from images.oci.layer import EPOCH
from images.oci.manifest import LAYOUT, digest_of, encode


def archive(image: Image, store: Store, skip: int = 0) -> Iterator[bytes]:
    """Yield an archive that is both `docker load`'s and an OCI layout, layers uncompressed: it loads everywhere.

    The first `skip` layers are named in it and not contained.
    """
    diff_ids = [layer.written.diff_id for layer in image.layers]
    written = archived_manifest(image)
    yield from _entry("oci-layout", LAYOUT)
    yield from _entry("index.json", indexes.write_index([(written, image.platform)], image.tags))
    yield from _entry("manifest.json", _for_docker(image.config, diff_ids, image.tags))
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


def file_archive(name: str, path: Path) -> Iterator[bytes]:
    """Yield an archive of one file."""
    size = path.stat().st_size
    yield _header(name, size)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
    yield bytes(-size % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)


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


def _for_docker(config: bytes, diff_ids: Sequence[str], tags: Sequence[str]) -> bytes:
    """Write the manifest.json that `docker load` of every age reads (Docker image specification v1.2)."""
    blobs = [f"blobs/sha256/{diff_id}" for diff_id in diff_ids]
    name = digest_of(config).removeprefix("sha256:")
    return encode([{"Config": f"blobs/sha256/{name}", "RepoTags": list(tags), "Layers": blobs}])
