"""Layers, compressed or not: zstd's settings, which decide the bytes, and layers of others, by their first bytes."""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import zstandard

from images.content import Content
from images.foreign.tars import Tar
from images.host import limits
from images.host.errors import Damaged, WorldFault
from images.oci.layer import Layer
from images.store.blobs import CHUNK, Blobs, sha256

# The bytes of a compressed layer depend on all of these, and on the exact zstandard release in pyproject.toml, but on
# no number of threads above 0 (zstd documentation, ZSTD_c_nbWorkers). The tables, of 0.75 MB, stay in the second cache
# of a core: with those of four times as many bytes layers took half as long again to twice the time, for 3 % fewer.
USUAL = {
    "compression_level": 3,
    "window_log": 23,
    "chain_log": 16,
    "hash_log": 17,
    "job_size": 8 << 20,
    "overlap_log": 8,
    "threads": 1,
}
BASE, INTEL = "debian base", "intel runtime"
# Layers for which others are better: the base is made once for many images, and may take four times as long for 10 %
# fewer bytes; Intel's programs and libraries repeat each other at distances that larger tables remember.
OTHERWISE: Mapping[str, Mapping[str, int]] = {
    BASE: {"compression_level": 9, "chain_log": 20, "hash_log": 21, "threads": 2},
    INTEL: {"chain_log": 18, "hash_log": 19},
}


def choose_settings(layer: str, content: Content) -> dict[str, int]:
    """Return how the layer of a name is compressed, in an image with this content."""
    return {**USUAL, **OTHERWISE.get(layer, {})}


def zstd_settings(content: Content) -> dict[str, int]:
    """Return what layers are compressed with, as a lock names it; what differs in a layer has its name before it."""
    usual = choose_settings("", content)
    others = {layer: choose_settings(layer, content).items() - usual.items() for layer in OTHERWISE}
    named = {f"{layer} {name}": value for layer, changed in others.items() for name, value in sorted(changed)}
    return {"zstd-" + re.sub("[_ ]", "-", name): value for name, value in {**usual, **named}.items()}


# Layers, compressed or not: opened by what their first bytes say (plain, gzip, zstd), or compressed in another way.

# RFC 1952, 2.3.1; RFC 8878, 3.1.1. A zstd file may begin with a skippable frame (3.1.2), 0x184D2A50 to 5F.
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
SKIPPABLE = b"\x2a\x4d\x18"

DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)


def detect(path: Path) -> str:
    """Return how a layer is compressed: none, gzip or zstd."""
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(GZIP):
        return "gzip"
    return "zstd" if start == ZSTD or start[1:] == SKIPPABLE else "none"


class Plain:
    """A layer as its tar, hashed as it is read; `most` is how many bytes it may have."""

    def __init__(self, source: IO[bytes], most: int) -> None:
        self._source, self._most, self._hash = source, most, hashlib.sha256()
        self.size = 0

    def read(self, count: int) -> bytes:
        """Read up to so many bytes, fewer only at the end.

        Raises WorldFault for a layer that unpacks to more than it may have.
        """
        data = self._source.read(count)
        self._hash.update(data)
        self.size += len(data)
        if self.size > self._most:
            raise WorldFault("a layer unpacks to too much", f"more than {self._most} bytes", "another image")
        return data

    def rest(self) -> None:
        """Read to the end, so that hash and size are those of the whole."""
        while self.read(CHUNK):
            pass

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def open_layer(path: Path) -> Iterator[Plain]:
    """Open a layer, however it is packed.

    Raises WorldFault when it is damaged, also from within the block.
    """
    kind, most = detect(path), limits.LAYER.of(path.stat().st_size)
    try:
        with path.open("rb") as file:
            if kind == "gzip":
                with gzip.GzipFile(fileobj=file) as unzipped:
                    yield Plain(cast("IO[bytes]", unzipped), most)
            elif kind == "zstd":
                # zstd:chunked and parallel packers write several frames; a read must continue across them
                with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
                    yield Plain(cast("IO[bytes]", reader), most)
            else:
                yield Plain(file, most)
    except DAMAGE as error:
        raise WorldFault("a layer cannot be unpacked", f"{path.parent.name} ({error})", "another image") from error


@contextmanager
def open_layer_tar(path: Path) -> Iterator[tuple[Tar, Plain]]:
    """Open a layer as a tar, whose entries are read once and in their order.

    Raises WorldFault when it is damaged, also from within the block.
    """
    with open_layer(path) as plain:
        try:
            yield Tar(plain), plain
        except tarfile.TarError as error:
            raise WorldFault("a layer is not a tar", f"{path.parent.name} ({error})", "another image") from error


def stream_uncompressed(store: Blobs, layer: Layer) -> Iterator[bytes]:
    """Yield a layer of the store uncompressed; its bytes are hashed as they pass.

    Raises Damaged when they are not the layer's, or it is gone.
    """
    path = store.blob(layer.written.digest, size=layer.written.size)
    if path is None:
        raise Damaged(store.place(layer.written.digest))
    cause = None
    try:
        with open_layer(path) as source:
            while chunk := source.read(CHUNK):
                yield chunk
            if source.sha256 == layer.written.diff_id:
                return
    except WorldFault as fault:
        cause = fault
    store.drop(path)
    raise Damaged(path) from cause


def pack_layer(store: Blobs, layer: Layer, compression: str) -> tuple[str, int, str]:
    """Return sha256, size in bytes and compression of a layer as it is published; the store has it.

    A layer of somebody else's base is what its registry has, however it is compressed.
    """
    if compression == "zstd" or layer.packed is not None:
        return layer.written.digest, layer.written.size, layer.packed or compression

    def repack() -> dict[str, object]:
        with store.temporary() as path:
            PACKERS[compression](path, stream_uncompressed(store, layer))
            digest, size = sha256(path), path.stat().st_size
            store.keep(path, digest)
        return {"digest": digest, "size": size}

    inputs = [compression, layer.written.diff_id, zlib.ZLIB_RUNTIME_VERSION]
    cached = store.cached("packed", inputs, repack, lambda known: store.has(known["digest"], known["size"])).value
    return cached["digest"], cached["size"], compression


def _write_gzip(path: Path, chunks: Iterator[bytes]) -> None:
    # wbits 31: gzip with an empty header, so no name and no time (zlib manual, deflateInit2)
    packer = zlib.compressobj(level=6, wbits=31)
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(packer.compress(chunk))
        file.write(packer.flush())


# Layers are zstd in the store; each other way of manifest.PUBLISHED is written by one of these.
PACKERS: Mapping[str, Callable[[Path, Iterator[bytes]], None]] = {"gzip": _write_gzip}
