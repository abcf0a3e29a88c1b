"""An image -> Docker or podman, a file, or an OCI layout."""

from __future__ import annotations

import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import zstandard
from docker.errors import DockerException

from images.host import process
from images.host.errors import UserFault, WorldFault
from images.host.store import CHUNK, Store, sha256
from images.oci import compression as compressed
from images.oci import image as oci
from images.oci.image import Image, Part
from images.oci.layer import EPOCH

COMPRESSIONS = ("none", "gzip", "zstd")


@dataclass(frozen=True)
class Engine:
    """Docker through its socket (`client`), or podman by its command (`client` None)."""

    name: str
    client: Any = None


def find_engine(environ: Mapping[str, str], seconds: int = 600) -> Engine | None:
    """Find a running Docker that answers within so many seconds, now and later; else podman, else None."""
    try:
        client = docker.from_env(timeout=seconds, environment=dict(environ))
        client.ping()
        return Engine("docker", client)
    except (DockerException, OSError):
        return Engine("podman") if shutil.which("podman", path=environ.get("PATH")) else None


def load(engine: Engine, image: Image, store: Store, environ: Mapping[str, str]) -> None:
    """Put an image into an engine; what the engine has already is not sent again.

    Raises WorldFault when the engine refuses it.
    """
    if engine.client is None:
        return _load_podman(image, store, environ)
    if _has(engine, image):
        engine.client.images.get(image.id).tag(*image.tag.rsplit(":", 1))
        return None
    if present := _present(engine, image):
        try:
            return _send(engine, image, archive(image, store, skip=present))
        except (DockerException, OSError):
            pass  # an engine that wants every layer all the same gets every layer
    try:
        _send(engine, image, archive(image, store))
    except (DockerException, OSError) as error:
        remedy = "look into the engine's log; a full disk is the usual cause (docker system df)"
        raise WorldFault("docker could not load the image", str(error).strip()[:300], remedy) from error
    return None


def _send(engine: Engine, image: Image, chunks: Iterator[bytes]) -> None:
    engine.client.images.load(chunks)
    engine.client.images.get(image.tag)


def _present(engine: Engine, image: Image) -> int:
    """Count the lowest layers that some image in the engine has already: `docker load` does not open those."""
    ours = [f"sha256:{part.written.diff_id}" for part in image.parts]
    try:
        theirs = [other.attrs["RootFS"].get("Layers") or [] for other in engine.client.images.list()]
    except (DockerException, OSError):
        return 0
    return max((_common(ours, layers) for layers in theirs), default=0)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _has(engine: Engine, image: Image) -> bool:
    try:
        return bool(engine.client.images.get(image.id).id == image.id)
    except (DockerException, OSError):
        return False


def _load_podman(image: Image, store: Store, environ: Mapping[str, str]) -> None:
    with store.aside() as path:
        write_archive(path, image, store)
        done = process.run(["podman", "load", "--quiet", "--input", str(path)], environ, "apt-get install podman")
    if done.code:
        remedy = "look at `podman info`; --output FILE keeps the image as a file"
        raise WorldFault("podman could not load the image", done.err.strip()[-300:], remedy)


def archive(image: Image, store: Store, skip: int = 0) -> Iterator[bytes]:
    """Yield an archive that is both `docker load`'s and an OCI layout, layers uncompressed: it loads everywhere.

    The first `skip` layers are named in it and not contained.
    """
    diff_ids = [part.written.diff_id for part in image.parts]
    manifest = oci.manifest(image.config, [(p.written.diff_id, p.written.unpacked, "none") for p in image.parts])
    yield from _entry("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    yield from _entry("index.json", oci.index(manifest, image.tag))
    yield from _entry("manifest.json", oci.docker_manifest(image.config, diff_ids, image.tag))
    for data in (image.config, manifest):
        yield from _entry(_blob(oci.digest_of(data)), data)
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


def plain(store: Store, part: Part) -> Iterator[bytes]:
    """Yield a layer uncompressed."""
    path = _opened(store, part.written.digest)
    if part.packed is not None:
        with compressed.opened(path) as source:
            while chunk := source.read(CHUNK):
                yield chunk
        return
    with path.open("rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file)
        while chunk := reader.read(CHUNK):
            yield chunk


def _opened(store: Store, digest: str) -> Path:
    path = store.blob(digest)
    if path is None:
        raise WorldFault("the store lost a layer while it was in use", digest, "build again")
    return path


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
    """Write an image to `target`: an archive, or a layout in registry form where the name ends in `/` or is a folder.

    What is there already stays as it was until the new one is whole.
    """
    path = Path(target)
    if not path.absolute().parent.is_dir():
        raise UserFault("no such folder", path.absolute().parent, "--output with a path in a folder that exists")
    try:
        if target.endswith("/") or path.is_dir():
            _write_layout(path, image, store, compression)
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


def _write_layout(path: Path, image: Image, store: Store, compression: str) -> None:
    """Write blobs first, the index last: a layout is whole when its index names the manifest."""
    manifest = registry_manifest(image.config, image.parts, store, compression)
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    for part in image.parts:
        digest, _, _ = packed(store, part, compression)
        if not (blobs / digest).exists():
            shutil.copyfile(_opened(store, digest), blobs / f".{digest}")
            (blobs / f".{digest}").replace(blobs / digest)
    for data in (image.config, manifest):
        (blobs / oci.digest_of(data).removeprefix("sha256:")).write_bytes(data)
    (path / "oci-layout").write_bytes(b'{"imageLayoutVersion":"1.0.0"}')
    (path / "index.json").write_bytes(oci.index(manifest, image.tag))


def registry_manifest(config: bytes, parts: tuple[Part, ...], store: Store, compression: str) -> bytes:
    """Write the manifest as a registry has it."""
    return oci.manifest(config, [packed(store, part, compression) for part in parts])


def packed(store: Store, part: Part, compression: str) -> tuple[str, int, str]:
    """Answer sha256, size in bytes and compression of a layer in one of the COMPRESSIONS; zstd is what the store has.

    A layer of somebody else's base is what its registry has, however it is packed.
    """
    if compression == "zstd" or part.packed is not None:
        return part.written.digest, part.written.size, part.packed or compression

    def repack() -> tuple[str, int]:
        with store.aside() as path:
            _repack(path, plain(store, part), compression)
            digest, size = sha256(path), path.stat().st_size
            store.keep(path, digest)
        return digest, size

    inputs = [compression, part.written.diff_id, zlib.ZLIB_RUNTIME_VERSION]
    digest, size = store.cached("packed", inputs, repack, lambda known: store.blob(known[0]) is not None).value
    return digest, size, compression


def _repack(path: Path, chunks: Iterator[bytes], compression: str) -> None:
    # wbits 31: gzip with an empty header, so no name and no time (zlib manual, deflateInit2)
    packer = zlib.compressobj(level=6, wbits=31) if compression == "gzip" else None
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(packer.compress(chunk) if packer else chunk)
        file.write(packer.flush() if packer else b"")
