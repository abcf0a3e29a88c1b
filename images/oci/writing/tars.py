"""Tars that have to be the same every time: of layers, of images and of bundles, written in one way."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator

# Every file has this time (seconds since 1970): 2024-01-01. Bytecode in the image carries it too.
EPOCH = 1_704_067_200
END = bytes(2 * tarfile.BLOCKSIZE)
BLANK, FILE = tarfile.TarInfo().tobuf(tarfile.PAX_FORMAT), tarfile.REGTYPE


def header(
    path: str, mode: int = 0o644, uid: int = 0, gid: int = 0, kind: bytes = FILE, size: int = 0, target: str = ""
) -> bytes:
    """Return the header of an entry as tarfile writes it, in a tenth of its time where it fits into one block."""
    name = f"{path}/" if kind == tarfile.DIRTYPE else path
    if not (name + target).isascii() or max(len(name), len(target)) > 100 or max(size >> 12, uid, gid) >= 8**7:
        info = tarfile.TarInfo(path)
        info.mode, info.uid, info.gid, info.size, info.mtime = mode, uid, gid, size, EPOCH
        info.type, info.linkname = kind, target
        return info.tobuf(tarfile.PAX_FORMAT)
    numbers = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (mode & 0o7777, uid, gid, size, EPOCH)
    start, end = name.encode().ljust(100, b"\0"), target.encode().ljust(100, b"\0")
    block = b"".join((start, numbers, b" " * 8, kind, end, BLANK[257:]))
    return b"%b%06o\0 %b" % (block[:148], sum(block), block[156:])  # POSIX.1-1988: the sum with blanks in its place


def stream_file(name: str, size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the entry of a file (mode 644, root's) whose chunks have so many bytes in all."""
    yield header(name, size=size)
    yield from chunks
    yield bytes(-size % tarfile.BLOCKSIZE)
