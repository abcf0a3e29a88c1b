"""Layers that others packed: plain, gzip or zstd, told apart by their first bytes and not by what they are called."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import zstandard

from images.host.errors import WorldFault
from images.host.store import CHUNK

# RFC 1952, 2.3.1; RFC 8878, 3.1.1. A zstd file may begin with a skippable frame (3.1.2), 0x184D2A50 to 5F.
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
SKIPPABLE = b"\x2a\x4d\x18"

DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)


def compression(path: Path) -> str:
    """Tell how a layer is packed: none, gzip or zstd (names as in `--compression`)."""
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(GZIP):
        return "gzip"
    return "zstd" if start == ZSTD or start[1:] == SKIPPABLE else "none"


class Plain:
    """A layer as its tar: `read` for tarfile, `rest` for the bytes after the last entry; hashed as it passes."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._hash = source, hashlib.sha256()
        self.size = 0

    def read(self, count: int) -> bytes:
        """Read up to so many bytes, fewer only at the end."""
        data = self._source.read(count)
        self._hash.update(data)
        self.size += len(data)
        return data

    def rest(self) -> None:
        """Read to the end, so that hash and size are those of the whole."""
        while self.read(CHUNK):
            pass

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def opened(path: Path) -> Iterator[Plain]:
    """Open a layer, however it is packed.

    Raises WorldFault when it is damaged, also from within the block.
    """
    kind = compression(path)
    try:
        with path.open("rb") as file:
            if kind == "gzip":
                with gzip.GzipFile(fileobj=file) as unzipped:
                    yield Plain(cast("IO[bytes]", unzipped))
            elif kind == "zstd":
                # zstd:chunked and parallel packers write several frames; a read is to go on over their ends
                with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
                    yield Plain(cast("IO[bytes]", reader))
            else:
                yield Plain(file)
    except DAMAGE as error:
        raise WorldFault("a layer cannot be unpacked", f"{path.parent.name} ({error})", "another image") from error
