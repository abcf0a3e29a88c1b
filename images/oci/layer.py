"""Files -> one reproducible tar, hashed and compressed as it is written."""

from __future__ import annotations

import hashlib
import io
import posixpath
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import zstandard

# Every file has this time (seconds since 1970): 2024-01-01. Bytecode in the image carries it too.
EPOCH = 1_704_067_200

# The bytes of a compressed layer depend on all three, and on the exact zstandard release in pyproject.toml.
# The number of workers does not change them, having any does: zstd documentation, ZSTD_c_nbWorkers.
ZSTD_LEVEL = 3
ZSTD_WORKERS = 2


@dataclass(frozen=True)
class Written:
    """A finished layer: sha256 of the tar and of its compressed form, and both sizes in bytes."""

    diff_id: str
    digest: str
    size: int
    unpacked: int


@dataclass(frozen=True)
class Part:
    """One layer of an image: its name, what was written, and whether it was there already.

    `packed` is how a layer of a pulled base is compressed, which it stays; all others are zstd in the store.
    """

    name: str
    written: Written
    reused: bool
    packed: str | None = None


@dataclass(frozen=True)
class Directories:
    """The directories below a layer: path -> (mode, uid, gid), and links to directories, such as lib -> usr/lib."""

    owners: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def resolve(self, path: str) -> str:
        """Follow the links of the base in a path: an entry at `lib/x` would replace the link."""
        parts = path.split("/")
        for depth in range(1, len(parts)):
            head = "/".join(parts[:depth])
            if head in self.links:
                return self.resolve(posixpath.normpath("/".join([self.links[head], *parts[depth:]])))
        return path


class Sink:
    """Hash what passes, compress it, hash that, write it; `tell` is what tarfile asks for."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._position, self._size = file, 0, 0
        self._plain, self._packed = hashlib.sha256(), hashlib.sha256()
        self._zstd = zstandard.ZstdCompressor(level=ZSTD_LEVEL, threads=ZSTD_WORKERS).compressobj()

    def write(self, data: bytes) -> int:
        self._plain.update(data)
        self._position += len(data)
        self._out(self._zstd.compress(data))
        return len(data)

    def tell(self) -> int:
        return self._position

    def finish(self) -> Written:
        """Flush, and return what was written."""
        self._out(self._zstd.flush())
        return Written(self._plain.hexdigest(), self._packed.hexdigest(), self._size, self._position)

    def _out(self, data: bytes) -> None:
        self._packed.update(data)
        self._size += len(data)
        self._file.write(data)


class Layer:
    """A layer while it is written: fixed times, parents before children, equal files as hard links."""

    def __init__(self, path: Path, below: Directories) -> None:
        self._below = below
        self._file = path.open("wb")
        self._sink = Sink(self._file)
        sink = cast("IO[bytes]", self._sink)
        self._tar = tarfile.TarFile(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT, copybufsize=1 << 20)
        self._directories: set[str] = {""}
        self._files: dict[tuple[str, int, int, int], str] = {}

    def __enter__(self) -> Layer:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def finish(self) -> Written:
        """Write the end of the tar and return what was written."""
        self._tar.close()
        return self._sink.finish()

    def directory(self, path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        """Add a directory and its parents."""
        path = posixpath.dirname(self._below.resolve(f"{path}/."))  # a link to a directory stays one
        if path in self._directories:
            return
        self._directories.add(path)
        self.parents(path)
        self._tar.addfile(_info(path, mode, uid, gid, kind=tarfile.DIRTYPE))

    def parents(self, path: str) -> None:
        """Add the directories above a path, with the owners and modes that the base gave them."""
        parent = posixpath.dirname(path)
        if parent not in self._directories:
            self.directory(parent, *self._below.owners.get(parent, (0o755, 0, 0)))

    def file(self, path: str, data: bytes, mode: int = 0o644, uid: int = 0, gid: int = 0) -> str:
        """Add a file and return its sha256 in hexadecimal; a file like an earlier one becomes a link to it."""
        path = self._below.resolve(path)
        self.parents(path)
        digest = hashlib.sha256(data).hexdigest()
        first = self._files.setdefault((digest, mode, uid, gid), path)
        if first != path and data:
            info = _info(path, mode, uid, gid, kind=tarfile.LNKTYPE)
            info.linkname = first
            self._tar.addfile(info)
        else:
            info = _info(path, mode, uid, gid)
            info.size = len(data)
            self._tar.addfile(info, io.BytesIO(data))
        return digest

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        path = self._below.resolve(path)
        self.parents(path)
        info = _info(path, 0o777, 0, 0, kind=tarfile.SYMTYPE)
        info.linkname = target
        self._tar.addfile(info)

    def copy(self, info: tarfile.TarInfo, data: IO[bytes] | None) -> None:
        """Add an entry of another tar as it stands."""
        self._tar.addfile(info, data)


def _info(path: str, mode: int, uid: int, gid: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mode, info.uid, info.gid, info.type, info.mtime = mode, uid, gid, kind, EPOCH
    return info
