"""Files -> one reproducible tar, hashed and compressed as it is written."""

from __future__ import annotations

import hashlib
import io
import posixpath
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import zstandard

from images.foreign.tars import DEEPEST, LONGEST, LONGEST_PART
from images.host.errors import WorldFault

# Every file has this time (seconds since 1970): 2024-01-01. Bytecode in the image carries it too.
EPOCH = 1_704_067_200

# The bytes of a compressed layer depend on all three, and on the exact zstandard release in pyproject.toml.
# The number of workers does not change them, having any does: zstd documentation, ZSTD_c_nbWorkers.
ZSTD_LEVEL = 3
ZSTD_WORKERS = 2

WHITEOUT = ".wh."  # OCI image specification 1.1, "Whiteouts"
# What a path in a layer must not have, and words that go after the path.
FLAWS = (
    (r"\A\Z", "is empty"),
    (r"\A/", "is absolute"),
    (r"(?:\A|/)\.\.(?:/|\Z)", "leaves its directory"),
    (r"(?:\A|/)\.?(?:/|\Z)", "has an empty part or a `.`"),
    (rf"(?:\A|/){re.escape(WHITEOUT)}", "would hide a file of a lower layer"),
    (r"[\x00-\x1f\x7f]", "has a control character"),
    (r"[\ud800-\udfff]", "is not UTF-8"),
)
# Most paths, of which there are many: parts of ASCII, none with a dot in front.
PLAIN = re.compile(r"[!-\-0-~][ -.0-~]*(/[!-\-0-~][ -.0-~]*)*")
HOPS = 40  # links in one path before it counts as a circle: path_resolution(7)


def flaw(path: str) -> str | None:
    """Return what keeps a path out of a layer, in words that go after it; None for a good one."""
    if len(path) <= LONGEST_PART and PLAIN.fullmatch(path):
        return None
    for pattern, words in FLAWS:
        if re.search(pattern, path):
            return words
    if len(path.encode()) > LONGEST or any(len(part.encode()) > LONGEST_PART for part in path.split("/")):
        return "is too long"
    return f"has more than {DEEPEST} directories" if path.count("/") > DEEPEST else None


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
        """Follow the links of the base in a path: an entry at `lib/x` would replace the link.

        Raises WorldFault when they form a circle.
        """
        for _ in range(HOPS):
            parts = path.split("/")
            heads = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
            head = next((head for head in heads if head in self.links), None)
            if head is None:
                return path
            path = posixpath.normpath(self.links[head] + path.removeprefix(head))
        raise WorldFault("links of the base form a circle", f"/{path}", "another --base")


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


ABSENT = (None, "")


class Layer:
    """A layer while it is written: fixed times, parents before children, equal files as hard links.

    `source` is what is being written, such as the name of a wheel; errors name it.
    """

    def __init__(self, path: Path, below: Directories) -> None:
        self.source = ""
        self._below = below
        self._file = path.open("wb")
        self._sink = Sink(self._file)
        sink = cast("IO[bytes]", self._sink)
        self._tar = tarfile.TarFile(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT, copybufsize=1 << 20)
        self._entries: dict[str, tuple[object, str]] = {"": (tarfile.DIRTYPE, "")}
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
        path = self._place(f"{path}/.").removesuffix("/.")  # a link to a directory stays one
        self.parents(path)
        self._add_directory(path, mode, uid, gid)

    def parents(self, path: str) -> None:
        """Add the directories above a path, with the owners and modes that the base gave them."""
        missing = []
        while self._entries.get(path := posixpath.dirname(path), ABSENT)[0] != tarfile.DIRTYPE:
            missing.append(path)
        for each in reversed(missing):
            self._add_directory(each, *self._below.owners.get(each, (0o755, 0, 0)))

    def _add_directory(self, path: str, mode: int, uid: int, gid: int) -> None:
        if self._is_new(path, tarfile.DIRTYPE):
            self._tar.addfile(_info(path, mode, uid, gid, kind=tarfile.DIRTYPE))

    def file(self, path: str, data: bytes, mode: int = 0o644, uid: int = 0, gid: int = 0) -> str:
        """Add a file and return its sha256 in hexadecimal; a file like an earlier one becomes a link to it.

        Raises WorldFault for a path that no layer has, and where the layer has something else at that path.
        """
        return self._add(self._place(path), data, mode, uid, gid)

    def whiteout(self, path: str) -> None:
        """Hide a file or directory of a lower layer."""
        directory, name = posixpath.split(self._place(path))
        self._add(posixpath.join(directory, WHITEOUT + name), b"", 0o644, 0, 0)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        path = self._place(path)
        if self._is_new(path, target):
            self.parents(path)
            info = _info(path, 0o777, 0, 0, kind=tarfile.SYMTYPE)
            info.linkname = target
            self._tar.addfile(info)

    def _place(self, path: str) -> str:
        """Return a path without the links of the base, after checking it."""
        resolved = self._below.resolve(path)
        for each in dict.fromkeys((path, resolved)):
            if found := flaw(each.removesuffix("/.")):
                value = f"{each!r} {found}" + (f" ({self.source})" if self.source else "")
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
            both = " and ".join(dict.fromkeys(filter(None, (source, self.source))))
            remedy = "leave one of the packages out, or a --wheelhouse with one of them repaired"
            raise WorldFault("two different files have one path", f"/{path} ({both})" if both else f"/{path}", remedy)
        return False

    def _add(self, path: str, data: bytes, mode: int, uid: int, gid: int) -> str:
        digest = hashlib.sha256(data).hexdigest()
        if not self._is_new(path, (digest, mode, uid, gid)):
            return digest
        self.parents(path)
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

    def copy(self, info: tarfile.TarInfo, data: IO[bytes] | None) -> None:
        """Add an entry of another tar, unchanged."""
        self._tar.addfile(info, data)


def _info(path: str, mode: int, uid: int, gid: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mode, info.uid, info.gid, info.type, info.mtime = mode, uid, gid, kind, EPOCH
    return info
