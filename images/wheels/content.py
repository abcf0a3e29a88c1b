"""What is in the files of a wheel: read once, when it arrives, and compared with RECORD.

Layers take a file by the hash in RECORD afterwards, and read nothing twice.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from images.host.store import Store
from images.wheels import archive, symbols
from images.wheels.archive import CheckedWheel
from images.wheels.members import Member
from images.wheels.record import refuse_content
from images.wheels.symbols import WORTHWHILE, Outline

DATA = ".data/data/"  # after the name and the release of a wheel: what goes below the prefix


class Library(NamedTuple):
    """A shared library that goes below the prefix: its path there, its checksum, the name inside (DT_SONAME)."""

    path: str
    checksum: int
    name: str | None


class Stripped(NamedTuple):
    """A library without its symbols: what stays of it, and the sha256 of that."""

    outline: Outline
    sha256: str


class Content(NamedTuple):
    """What later steps ask of a wheel's files: its shared libraries below the prefix, and those that can lose their
    symbols, by their names in the wheel.
    """

    libraries: list[Library]
    stripped: dict[str, Stripped]


def content(store: Store, digest: str, path: Path) -> Content:
    """Return what is in a wheel, whose files are what RECORD says; the store keeps what was read.

    Raises WorldFault when a file is another one, or the wheel cannot be installed.
    """
    found, stripped = store.cached("wheel contents", digest, lambda: _read(store, path)).value
    return Content(
        [Library(*each) for each in found],
        {name: Stripped(Outline.of_json(outline), sha256) for name, (outline, sha256) in stripped.items()},
    )


def _read(store: Store, path: Path) -> list[object]:
    names: dict[int, str | None] = {}  # by checksum: a wheel holds no links, and has a library once for each name
    found, stripped = list[Library](), dict[str, object]()
    with archive.opened(path) as wheel:
        for member in wheel.members:
            name, checksum = member.info.filename, member.info.CRC
            place = name.partition(DATA)[2]
            is_library = ".so" in posixpath.basename(place)
            if is_library and checksum not in names:
                outline, names[checksum] = _compare_library(wheel, member, store)
            else:
                outline = _compare(wheel, member)
            if outline:
                stripped[name] = (outline.to_json(), _without_symbols(member, outline))
            if is_library:
                found.append(Library(place, checksum, names[checksum]))
    return [found, stripped]


def _without_symbols(member: Member, outline: Outline) -> str:
    hashed = hashlib.sha256()
    for chunk in symbols.without(member.chunks(), outline):
        hashed.update(chunk)
    return hashed.hexdigest()


def _compare_library(wheel: CheckedWheel, member: Member, store: Store) -> tuple[Outline | None, str | None]:
    """Return what `_compare` does, and the name inside a library, of which some have too many bytes for the memory."""
    from images.foreign import libraries  # with pyelftools, which a build does without that knows all of its files

    with store.aside() as copy, copy.open("w+b") as file:
        outline = _compare(wheel, member, file.write)
        return outline, libraries.soname(file)


def _compare(wheel: CheckedWheel, member: Member, seen: Callable[[bytes], object] = lambda _: None) -> Outline | None:
    """Return what stays of a file without symbols, or None for one that stays as it is; `seen` gets all of it.

    Raises ValueError when its content is not what RECORD says.
    """
    row, size = wheel.row(member.info.filename), member.info.file_size
    hashed = hashlib.new(row.hash_.name if row and row.hash_ else "sha256")
    chunks = passing(passing(member.chunks(), hashed.update), seen)
    outline = symbols.outline(io.BufferedReader(_Chunks(chunks)), size) if size >= WORTHWHILE else None
    for _ in chunks:
        pass
    if row:
        refuse_content(row, hashed.digest())
    return outline


def passing(chunks: Iterable[bytes], seen: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yield chunks; `seen` is called with each."""
    for chunk in chunks:
        seen(chunk)
        yield chunk


class _Chunks(io.RawIOBase):
    """Chunks as a file that is read forwards."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._left = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._left:
            self._left = memoryview(next(self._chunks, b""))
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count
