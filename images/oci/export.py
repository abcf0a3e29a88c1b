"""An image in a file: an archive that every engine loads, or an OCI layout in registry form."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from images.oci import manifest
from images.oci.compression import packed, plain, stored
from images.oci.image import Image, Part
from images.oci.layer import EPOCH
from images.oci.manifest import digest_of

LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'  # the content of the file oci-layout


def archive(image: Image, store: Store, skip: int = 0) -> Iterator[bytes]:
    """Yield an archive that is both `docker load`'s and an OCI layout, layers uncompressed: it loads everywhere.

    The first `skip` layers are named in it and not contained.
    """
    diff_ids = [part.written.diff_id for part in image.parts]
    written = manifest.write(image.config, [(p.written.diff_id, p.written.unpacked, "none") for p in image.parts])
    yield from _entry("oci-layout", LAYOUT)
    yield from _entry("index.json", manifest.write_index(written, image.tags))
    yield from _entry("manifest.json", manifest.write_docker(image.config, diff_ids, image.tags))
    for data in (image.config, written):
        yield from _entry(_blob(digest_of(data)), data)
    for part in image.parts[skip:]:
        yield _header(_blob(part.written.diff_id), part.written.unpacked)
        yield from plain(store, part)
        yield bytes(-part.written.unpacked % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def write_archive(path: Path, image: Image, store: Store) -> None:
    """Write the archive to a file."""
    with path.open("wb") as file:
        for chunk in archive(image, store):
            file.write(chunk)


def _blob(digest: str) -> str:
    return "blobs/sha256/" + digest.removeprefix("sha256:")


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, EPOCH
    return info.tobuf(tarfile.PAX_FORMAT)


def _entry(name: str, data: bytes) -> Iterator[bytes]:
    yield _header(name, len(data))
    yield data
    yield bytes(-len(data) % tarfile.BLOCKSIZE)


def save(target: str, image: Image, store: Store, compression: str) -> Path:
    """Write an image to `target`: a layout in registry form where that ends in `/` or is a directory, or an archive.

    What is there already stays as it was until the new one is whole.
    """
    path = Path(target)
    if not path.absolute().parent.is_dir():
        raise UserFault("no such folder", path.absolute().parent, "--output with a path in a folder that exists")
    try:
        if target.endswith("/") or path.is_dir():
            write_layout(path, image, store, compression)
        else:
            aside = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                write_archive(aside, image, store)
                aside.replace(path)
            finally:
                aside.unlink(missing_ok=True)
    except OSError as error:
        remedy = "--output with a path that can be written and has room for the image"
        raise WorldFault("cannot write the image", f"{target} ({error.strerror})", remedy) from error
    return path


def write_layout(
    path: Path, image: Image, store: Store, compression: str, copy: Callable[[Path, Path], object] = shutil.copyfile
) -> None:
    """Write an OCI layout: blobs first, by `copy` or as links, the index last, which makes it whole."""
    written = registry_manifest(image.config, image.parts, store, compression)
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    for part in image.parts:
        digest, _, _ = packed(store, part, compression)
        if not (blobs / digest).exists():
            copy(stored(store, digest), blobs / f".{digest}")
            (blobs / f".{digest}").replace(blobs / digest)
    for data in (image.config, written):
        (blobs / digest_of(data).removeprefix("sha256:")).write_bytes(data)
    (path / "oci-layout").write_bytes(LAYOUT)
    (path / "index.json").write_bytes(manifest.write_index(written, image.tags))


def registry_manifest(config: bytes, parts: tuple[Part, ...], store: Store, compression: str) -> bytes:
    """Write the manifest as a registry has it."""
    return manifest.write(config, [packed(store, part, compression) for part in parts])
