"""Tars that others wrote: what Python's tarfile would take from them without end is refused."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import posixpath
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Protocol, TypeVar, cast

from images.host.errors import UserFault

Read = TypeVar("Read")

# Bytes of a name, which is NAME_MAX of Linux, and of a path, for which PATH_MAX leaves room below a store of any place.
LONGEST_PART, LONGEST = 255, 3000
DEEPEST = 200  # directories in a path: to remove a tree that is much deeper, Python runs out of stack
# Bytes of the extended headers of one entry, which are read whole: real ones hold a path and some attributes.
LONGEST_HEADER = 1 << 20
MOST = 20_000  # entries of a tar that is listed: an image has two for each layer, a bundle some hundreds
MOST_ENDS = 100  # reads at the end of a stream
MAGIC, PREFIX = slice(257, 265), slice(345, 500)  # of a header: its format; the beginning of a path in POSIX's
FARTHEST = 1 << 40  # seconds from 1970: no file system has such times
EXTENDED = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip
SPARSE = "a file is sparse: the list of its parts may be of any length"  # tarfile reads the whole of it

# What is raised while a header is read, besides TarError: for numbers that are none, for charsets that nobody knows.
HEADERS = (ValueError, LookupError, OverflowError, RecursionError)
# What is raised while content is read, compressed or not.
CONTENT = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError, *HEADERS)


class CutShort(tarfile.ReadError):
    """A tar ends in the middle of a header, or before all is there that its headers say."""

    def __init__(self) -> None:
        super().__init__("it is cut short")


class AfterEnd(tarfile.ReadError):
    """A tar has anything but zeros after its last entry."""

    def __init__(self) -> None:
        super().__init__("there is something after its last entry that is none")


class Readable(Protocol):
    """What can be read."""

    def read(self, count: int, /) -> bytes:
        """Read up to so many bytes, fewer only at the end."""


class Member(tarfile.TarInfo):
    """A header of a tar, refused before tarfile reads into memory what it says."""

    # Python calls these for every header that it reads. Newer ones call frombuf, which is public, no more.
    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        """Refuse a size below 0, which older Pythons read in a circle (CVE-2025-8194), and too long a header.

        That is one that goes with the next one: a long name, the records of pax.
        """
        if self.size < 0 or (self.type in EXTENDED and self.size > LONGEST_HEADER):
            raise tarfile.ReadError(f"a header says {self.size} bytes")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]

    def _proc_gnulong(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        self._count(tar)
        return super()._proc_gnulong(tar)  # type: ignore[misc,no-any-return]

    def _proc_pax(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        self._count(tar)
        found = super()._proc_pax(tar)  # type: ignore[misc]
        # tarfile keeps what is said of all entries that follow, and applies it to them. Engines ignore it.
        if self.type == tarfile.XGLTYPE and tar.pax_headers.keys() - {"comment"}:
            raise tarfile.ReadError("a header is for all entries that follow")
        return found  # type: ignore[no-any-return]

    def _count(self, tar: tarfile.TarFile) -> None:
        """Count what goes before one entry: all of it is in memory until the entry itself comes."""
        ahead = vars(tar)["ahead"] = vars(tar).get("ahead", 0) + self.size
        if ahead > LONGEST_HEADER:
            raise tarfile.ReadError(f"the headers of one entry have {ahead} bytes")

    def _proc_sparse(self, *_: object) -> tarfile.TarInfo:
        raise tarfile.ReadError(SPARSE)

    def _proc_gnusparse_10(self, *_: object) -> None:
        raise tarfile.ReadError(SPARSE)


class Ending:
    """A stream that refuses endless reads at its end: tarfile skips missing bytes by reading nothing, for years.

    One without a byte is a tar without entries, as for Docker, which loads such layers (moby/moby, pull request 18226).
    """

    def __init__(self, stream: Readable) -> None:
        self._stream, self._ends, self._is_empty = stream, 0, True
        self._passed = self.used = 0  # `used` is the position after the last byte that is not zero

    def read(self, count: int) -> bytes:
        """Read up to so many bytes, fewer only at the end.

        Raises ReadError when a caller goes on reading there.
        """
        data = self._stream.read(count)
        if self._is_empty and not data:
            self._is_empty = False
            return bytes(tarfile.BLOCKSIZE)  # the end of a tar
        self._is_empty = False
        self._ends += not data
        if used := len(data.rstrip(b"\0")):
            self.used = self._passed + used
        self._passed += len(data)
        if self._ends > MOST_ENDS:
            raise tarfile.ReadError("a header says more bytes than there are")
        return data


def open_stream(stream: Readable) -> tarfile.TarFile:
    """Open a tar that is read once from its beginning.

    Raises ReadError where it is none.
    """
    ending = Ending(stream)
    file = cast("IO[bytes]", ending)
    tar = _tried(lambda: tarfile.open(fileobj=file, mode="r|", tarinfo=Member))  # noqa: SIM115 - callers close it
    vars(tar)["ending"] = ending
    return tar


def open_file(path: Path) -> tarfile.TarFile:
    """Open a tar on disk, which is not compressed.

    Raises ReadError where it is none, OSError where it cannot be read, UserFault for a pipe and the like.
    """
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would be waited for
        raise UserFault("what is there is not a file", path, "save it to a file first, and name that")
    return _tried(lambda: tarfile.open(path, "r:", tarinfo=Member))


def open_seekable(file: IO[bytes]) -> tarfile.TarFile:
    """Open a tar, not compressed, in a stream that can go back.

    Raises ReadError where it is none.
    """
    return _tried(lambda: tarfile.open(fileobj=file, mode="r:", tarinfo=Member))


def entries(tar: tarfile.TarFile, *, again: bool = False) -> Iterator[tarfile.TarInfo]:
    """Yield the entries of a tar that was opened here, and forget each unless it is asked for `again`.

    Raises ReadError where a header cannot be read, or says what no file system has, and for anything but zeros after
    the last entry: tarfile takes a header that it cannot read for the end, where engines may read on.
    """
    # Of a tar without any, Python 3.10 would look before its beginning, where a size below 0 may lead as well.
    while (tar.offset or vars(tar)["firstmember"]) and (info := _tried(tar.next)):
        vars(tar)["ahead"] = 0
        if found := _flaw(info):
            raise tarfile.ReadError(f"{info.name[:80]!r} {found}")
        yield info
        if not again:
            vars(tar)["members"].clear()
    _require_end(tar)


def _require_end(tar: tarfile.TarFile) -> None:
    """Read a tar to its end, from where tarfile stopped.

    Raises CutShort for half a header, ReadError for anything else but zeros. Python 3.11.2 stops at records of pax that
    are cut as well, and has read them.
    """
    file = cast("IO[bytes]", tar.fileobj)
    if ending := vars(tar).get("ending"):
        while file.read(tarfile.RECORDSIZE):
            pass
        is_clean = ending.used <= tar.offset
    else:
        was_at_end = isinstance(file, io.BufferedReader) and _is_at_end(file)
        file.seek(tar.offset)
        rest = file.read(tarfile.BLOCKSIZE)
        if any(rest) and (was_at_end or len(rest) < tarfile.BLOCKSIZE):
            raise CutShort
        is_clean = not any(rest) and not any(map(any, iter(lambda: file.read(tarfile.RECORDSIZE), b"")))
    if not is_clean:
        raise AfterEnd


def listed(tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Return the entries of a tar on disk by their paths below the root.

    Raises CutShort where it ends too early, else ReadError as `entries` does, and where it has more than MOST entries,
    or two entries, not both directories, of one path.
    """
    file = cast("io.BufferedReader", tar.fileobj)
    found: dict[str, tarfile.TarInfo] = {}
    try:
        for number, info in enumerate(entries(tar, again=True)):
            path = below_root(info.name)
            if path in found and not (info.isdir() and found[path].isdir()):
                raise tarfile.ReadError(f"{path[:80]!r} is there twice")
            found[path] = info
            if number >= MOST:
                raise tarfile.ReadError("too large")
    except tarfile.ReadError as error:
        if _is_at_end(file) and not isinstance(error, AfterEnd):  # it was looking for more
            raise CutShort from error
        raise
    return found


def below_root(path: str) -> str:
    """Return a path as seen from the root, which `..` does not leave, without the slash in front."""
    return posixpath.normpath(f"/{path}").lstrip("/")


def refuse_unusual(tar: tarfile.TarFile, found: Mapping[str, tarfile.TarInfo]) -> None:
    """Raise ReadError for what programs that save images never write, and readers of tars read in several ways.

    That is a header beside an entry's own, one with fields of another format than its own, and an entry below what is
    no directory.
    """
    file = cast("IO[bytes]", tar.fileobj)
    for path, info in sorted(found.items(), key=lambda pair: pair[1].offset):
        file.seek(info.offset)
        header = file.read(tarfile.BLOCKSIZE)
        prefix = header[PREFIX] if header[MAGIC] != tarfile.POSIX_MAGIC else b""
        if info.offset_data - info.offset != tarfile.BLOCKSIZE or any(prefix) or any(header[500:]):
            raise tarfile.ReadError(f"{path[:80]!r} has an unusual header")
        above = (path[: slash.start()] for slash in re.finditer("/", path))
        if other := next((each for each in above if each in found and not found[each].isdir()), None):
            raise tarfile.ReadError(f"{path[:80]!r} is below {other[:80]!r}, which is no directory")


def _is_at_end(plain: io.BufferedReader) -> bool:
    return plain.tell() >= os.fstat(plain.fileno()).st_size


def _tried(read: Callable[[], Read]) -> Read:
    """Read a header, of which tarfile lets errors of many kinds through."""
    try:
        return read()
    except HEADERS as error:
        raise tarfile.ReadError(str(error)[:200]) from error


def _flaw(info: tarfile.TarInfo) -> str | None:
    for path in (info.name, info.linkname):
        encoded = path.encode(errors="replace")
        if len(encoded) > LONGEST or any(len(part) > LONGEST_PART for part in encoded.split(b"/")):
            return "is or leads to a name that is too long"
        if path.count("/") > DEEPEST:
            return f"is or leads to a path of more than {DEEPEST} directories"
        if "\0" in path:
            return "is or leads to a name with a zero byte"
    if info.size < 0 or info.issparse():
        return "is sparse" if info.issparse() else f"has {info.size} bytes"
    return None if abs(info.mtime) < FARTHEST else f"is of the time {info.mtime}"
