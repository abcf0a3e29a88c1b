"""Tars that others wrote, read once from their beginning: what would take memory or time without end is refused."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from images.foreign.paths import find_excess, find_flaw
from images.host import limits
from images.host.limits import Bounded
from images.store.blobs import CHUNK, Readable

BLOCK = tarfile.BLOCKSIZE
# Bytes of all headers that go before one entry and are read whole: real ones hold a path and some attributes.
LONGEST_HEADER = 1 << 20
MAGIC, PREFIX, REST = slice(257, 265), slice(345, 500), slice(500, BLOCK)  # of a header; PREFIX is of POSIX's format
FARTHEST = 1 << 40  # seconds from 1970: no file system has such times
LONG = {tarfile.GNUTYPE_LONGNAME: "path", tarfile.GNUTYPE_LONGLINK: "linkpath"}
RECORDS = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE)
# Types of entries without content, whatever size they say.
BARE = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE,
)  # fmt: skip
SPARSE = "a file is sparse: the list of its parts may be of any length"
# What is raised for a header that says what is no number, or one that no file has.
ODD = (tarfile.HeaderError, ValueError, OverflowError)


class CutShort(tarfile.ReadError):
    """A tar ends in the middle of a header, or before all is there that its headers say."""

    def __init__(self) -> None:
        super().__init__("it is cut short")


class Tar:
    """The entries of a tar in their order, each with what `read` returns until the next one is asked for.

    A `plain` one has no headers that readers of tars read in several ways; programs that save images never write them.
    """

    def __init__(self, stream: Readable, *, plain: bool = False) -> None:
        self._stream, self._plain = stream, plain
        self._left = 0  # bytes of the entry's content

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        """Yield the entries; a stream without a byte is a tar without any, as for Docker, which loads such layers.

        Raises CutShort where it ends too early, else ReadError for a header that cannot be read, or says what no file
        system has, and for anything but zeros after the last entry, where engines may read on.
        """
        try:
            while info := self._next():
                if flaw := _flaw(info):
                    raise tarfile.ReadError(f"{info.name[:80]!r} {flaw}")
                size = self._left = 0 if info.type in BARE else info.size
                yield info
                self._skip(self._left + -size % BLOCK)
        except ODD as error:
            raise tarfile.ReadError(str(error)[:200]) from error

    def read(self, count: int = -1) -> bytes:
        """Read up to so many bytes of the entry that came last, fewer only at its end; by default all that are left."""
        data = self._take(self._left if count < 0 else min(count, self._left))
        self._left -= len(data)
        return data

    def _next(self) -> tarfile.TarInfo | None:
        """Read the next entry, and first the headers that say more of it; the later one of two counts, as for Go."""
        records: dict[str, str] = {}
        size = 0
        while header := self._header():
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            is_extended = info.type in LONG or info.type in RECORDS
            if self._plain and (is_extended or _is_odd(header)):
                raise tarfile.ReadError(f"{info.name[:80]!r} has an unusual header")
            if not is_extended:
                return _applied(info, records)
            size += info.size
            if info.size < 0 or size > LONGEST_HEADER:
                raise tarfile.ReadError(f"a header says {size} bytes")
            records |= _read_records(info.type, self._take(info.size))
            self._skip(-info.size % BLOCK)
        if records:
            raise CutShort
        return None

    def _header(self) -> bytes:
        """Read a header; there is none where a block of zeros comes, and after that all are zeros."""
        header = b""
        while len(header) < BLOCK and (more := self._stream.read(BLOCK - len(header))):
            header += more
        if any(header):
            if len(header) < BLOCK:
                raise CutShort
            return header
        while rest := self._stream.read(CHUNK):
            if rest.strip(b"\0"):
                raise tarfile.ReadError("there is something after its last entry that is none")
        return b""

    def _take(self, size: int) -> bytes:
        """Read exactly so many bytes."""
        parts = []
        while size:
            part = self._stream.read(min(size, CHUNK))
            if not part:
                raise CutShort
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _skip(self, size: int) -> None:
        """Pass over so many bytes, of a file without reading all of them."""
        if size and isinstance(self._stream, io.BufferedIOBase):
            self._stream.seek(size - 1, os.SEEK_CUR)
            size = 1
        while size:
            size -= len(self._take(min(size, CHUNK)))


def _is_odd(header: bytes) -> bool:
    """Return whether a header has something in fields of another format than its own."""
    return any(header[REST]) or (header[MAGIC] != tarfile.POSIX_MAGIC and any(header[PREFIX]))


def _read_records(kind: bytes, data: bytes) -> dict[str, str]:
    """Return what a header says of the entry after it, as a record of pax would (POSIX.1-2008)."""
    if kind in LONG:
        return {LONG[kind]: data.partition(b"\0")[0].decode(errors="surrogateescape")}
    records = _records(data)
    if any(key.startswith("GNU.sparse.") for key in records):
        raise tarfile.ReadError(SPARSE)
    if kind != tarfile.XGLTYPE:
        return records
    if records.keys() - {"comment"}:
        raise tarfile.ReadError("a header is for all entries that follow")
    return {}


def _records(data: bytes) -> dict[str, str]:
    """Read lines of `SIZE KEY=VALUE`, each of so many bytes.

    Raises ValueError for anything else.
    """
    records, start = {}, 0
    while start < len(data):
        blank = data.index(b" ", start)
        end = start + int(data[start:blank])
        key, equals, value = data[blank + 1 : end - 1].partition(b"=")
        if not blank < end <= len(data) or data[end - 1 : end] != b"\n" or not equals:
            raise ValueError("a record of a header is damaged")
        records[key.decode(errors="surrogateescape")] = value.decode(errors="surrogateescape")
        start = end
    return records


def _applied(info: tarfile.TarInfo, records: dict[str, str]) -> tarfile.TarInfo:
    """Let an entry be what the headers before it say."""
    info.pax_headers = records
    info.name = records.get("path", info.name).rstrip("/")
    info.linkname = records.get("linkpath", info.linkname)
    info.size, info.uid, info.gid = (int(records.get(key, getattr(info, key))) for key in ("size", "uid", "gid"))
    info.mtime = float(records["mtime"]) if "mtime" in records else info.mtime
    return info


def _flaw(info: tarfile.TarInfo) -> str | None:
    for path in (info.name, info.linkname):
        if flaw := "has a zero byte" if "\0" in path else find_excess(path):
            return f"is or leads to a path that {flaw}"
    if info.type == tarfile.GNUTYPE_SPARSE:
        return f"says that {SPARSE}"
    if info.size < 0:
        return f"has {info.size} bytes"
    return None if abs(info.mtime) < FARTHEST else f"is of the time {info.mtime}"


# A source archive from outside: its files by their paths below the top directory, within bounds.

GZIP = b"\x1f\x8b"  # how a compressed one begins (RFC 1952): those of releases, and of PyPI (PEP 625)


class ArchiveFile(NamedTuple):
    """A file of an archive: its path below the top directory, content and mode."""

    path: str
    data: bytes
    mode: int


def read_files(path: Path, is_asked_for: Callable[[str], bool], *, bare: bool = False) -> Iterator[ArchiveFile]:
    """Yield the files of an archive that a caller asks for, in its order, also two at one path: the later one counts.

    Links and devices are left out. A `bare` archive may have no top directory: a file is also asked for by its whole
    path.
    Raises ValueError when it cannot be read, when a name leads elsewhere, or when it unpacks to too much.
    """
    try:
        with _opened(path) as file:
            tar = Tar(Bounded(file, limits.WHEEL.of(path.stat().st_size)))
            for info in tar:
                name = info.name.removeprefix("./")
                if info.isdir():
                    continue
                if flaw := find_flaw(name):
                    raise ValueError(f"the name {info.name!r} {flaw}")
                below = name if bare and is_asked_for(name) else name.partition("/")[2]
                if is_asked_for(below) and info.isfile():
                    yield ArchiveFile(below, tar.read(), 0o755 if info.mode & 0o111 else 0o644)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(str(error) or "it is cut short") from error


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        is_packed = file.read(2) == GZIP
    return cast("IO[bytes]", gzip.GzipFile(path)) if is_packed else path.open("rb")
