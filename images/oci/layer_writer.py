"""Files -> one reproducible tar, hashed and compressed as it is written."""

from __future__ import annotations

import hashlib
import posixpath
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

import zstandard

from images.foreign.paths import WHITEOUT, find_flaw
from images.host.errors import WorldFault
from images.host.process import end_if_stopped
from images.oci import compression
from images.oci.layer import Directories, Written
from images.store.blobs import CHUNK

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


ABSENT = (None, "")


class Sink:
    """Hash what passes, compress it, hash that, write it: a megabyte at a time, for most files are small."""

    def __init__(self, file: IO[bytes], settings: Mapping[str, int]) -> None:
        self._file, self._waiting, self.position, self._size = file, bytearray(), 0, 0
        self._plain, self._packed = hashlib.sha256(), hashlib.sha256()
        parameters = zstandard.ZstdCompressionParameters(**settings)
        self._zstd = zstandard.ZstdCompressor(compression_params=parameters).compressobj()

    def write(self, data: bytes) -> None:
        self._waiting += data
        self.position += len(data)
        if len(self._waiting) >= CHUNK:
            self._pass_on()

    def pad(self, block: int) -> None:
        """Write zeros up to the next multiple of a block's bytes."""
        self.write(bytes(-self.position % block))

    def finish(self) -> Written:
        self._pass_on()
        self._out(self._zstd.flush())
        return Written(self._plain.hexdigest(), self._packed.hexdigest(), self._size, self.position)

    def _pass_on(self) -> None:
        end_if_stopped()
        data, self._waiting = self._waiting, bytearray()
        self._plain.update(data)
        self._out(self._zstd.compress(data))

    def _out(self, data: bytes) -> None:
        self._packed.update(data)
        self._size += len(data)
        self._file.write(data)


class LayerWriter:
    """A layer while it is written: fixed times, parents first, equal files as hard links. Errors name the `source`.

    `settings` are those of zstd.
    """

    def __init__(self, path: Path, below: Directories, settings: Mapping[str, int] = compression.USUAL) -> None:
        self.source, self._below = "", below
        self._file = path.open("wb")
        self._sink = Sink(self._file, settings)
        self._entries: dict[str, tuple[object, str]] = {"": (tarfile.DIRTYPE, "")}
        self._files: dict[tuple[str, int], str] = {}
        self._resolved: dict[str, str] = {}

    def __enter__(self) -> LayerWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def finish(self) -> Written:
        """Write the end of the tar and return what was written."""
        self._sink.write(END)
        self._sink.pad(tarfile.RECORDSIZE)
        return self._sink.finish()

    def directory(self, path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        """Add a directory and its parents."""
        path = self._place(f"{path}/.").removesuffix("/.")  # a link to a directory stays one
        self.parents(path)
        self._add_directory(path, mode, uid, gid)

    def parents(self, path: str) -> None:
        """Add the directories above a path, with the owners and modes that the base gave them."""
        missing = []
        while self._entries.get(path := posixpath.dirname(path), ABSENT)[0] != tarfile.DIRTYPE:
            missing.append(path)
        for parent in reversed(missing):
            self._add_directory(parent, *self._below.owners.get(parent, (0o755, 0, 0)))

    def _add_directory(self, path: str, mode: int, uid: int, gid: int) -> None:
        if self._is_new(path, tarfile.DIRTYPE):
            self._sink.write(header(path, mode, uid, gid, kind=tarfile.DIRTYPE))

    def file(self, path: str, data: bytes, mode: int = 0o644) -> str:
        """Add a file and return its sha256 in hexadecimal; a file like an earlier one becomes a link to it.

        Raises WorldFault for a path that no layer has, and where the layer has something else at that path.
        """
        digest = hashlib.sha256(data).hexdigest()
        self.stream(path, (data,), digest, len(data), mode)
        return digest

    def stream(self, path: str, chunks: Iterable[bytes], content: str, size: int, mode: int = 0o644) -> None:
        """Add a file that is not held in memory; nothing is read of one whose `content`, a sha256, is there already.

        `size` are the bytes of all chunks. Raises WorldFault as `file` does.
        """
        if self._begin(self._place(path), size, (content, mode)):
            for chunk in chunks:
                self._sink.write(chunk)
            self._sink.pad(tarfile.BLOCKSIZE)

    def whiteout(self, path: str) -> None:
        """Hide a file or directory of a lower layer."""
        directory, name = posixpath.split(self._place(path))
        self._begin(posixpath.join(directory, WHITEOUT + name), 0, ("", 0o644))

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        path = self._place(path)
        if self._is_new(path, target):
            self.parents(path)
            self._sink.write(header(path, 0o777, 0, 0, kind=tarfile.SYMTYPE, target=target))

    def _place(self, path: str) -> str:
        directory, slash, name = path.rpartition("/")
        if directory not in self._resolved:
            self._resolved[directory] = posixpath.dirname(self._below.resolve(f"{directory}{slash}x"))
        resolved = posixpath.join(self._resolved[directory], name)
        for candidate in dict.fromkeys((path, resolved)):
            if flaw := find_flaw(candidate.removesuffix("/.")):
                value = f"{candidate!r} {flaw}" + (f" ({self.source})" if self.source else "")
                raise WorldFault("a path cannot be in a layer", value, "leave out what brings it")
        return resolved

    def _is_new(self, path: str, content: object) -> bool:
        """Note what is at a path; return whether it was not there yet.

        A layer has a path once (OCI image specification 1.1, "Image Layer Filesystem Changeset"): which of two files
        stays is not for an engine to decide, and hard links to the first one would change with it.
        """
        if path not in self._entries:
            self._entries[path] = (content, self.source)
            return True
        known, source = self._entries[path]
        if known != content:
            sources = [*dict.fromkeys(filter(None, (source, self.source)))]
            both, several = " and ".join(sources), "leave one of the packages out, or a --wheelhouse with one of them"
            remedy = f"{several if len(sources) > 1 else 'another release, or a --wheelhouse with that wheel'} repaired"
            raise WorldFault("two different files have one path", f"/{path} ({both})" if both else f"/{path}", remedy)
        return False

    def has_other(self, path: str, content: str, mode: int) -> bool:
        """Return whether a path has another file than one with this sha256 and mode."""
        known, _ = self._entries.get(self._place(path), ABSENT)
        return isinstance(known, tuple) and known != (content, mode)

    def _begin(self, path: str, size: int, content: tuple[str, int]) -> bool:
        """Write the header of a file of this sha256 and mode; return whether its bytes are to follow."""
        if not self._is_new(path, content):
            return False
        self.parents(path)
        first = self._files.setdefault(content, path)
        if first != path and size:
            self._sink.write(header(path, content[1], 0, 0, kind=tarfile.LNKTYPE, target=first))
            return False
        self._sink.write(header(path, content[1], 0, 0, size=size))
        return True

    def copy(self, info: tarfile.TarInfo, data: IO[bytes] | None) -> None:
        """Add an entry as it is, at the time of all."""
        self._sink.write(header(info.name, info.mode, info.uid, info.gid, info.type, info.size, info.linkname))
        while data and (chunk := data.read(CHUNK)):
            self._sink.write(chunk)
        self._sink.pad(tarfile.BLOCKSIZE)
