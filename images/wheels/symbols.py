"""Libraries without what only a debugger reads: the table of symbols, and sections of debug information.

All that is loaded into memory stays, byte for byte, and with it the names that a linker looks for, dynamic or not.
The headers of the other sections become empty ones, so that no section has another number than before. The format:
System V ABI, "Object Files", and its AMD64 supplement.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from images.host.store import CHUNK

IDENT = b"\x7fELF\x02\x01\x01"  # 64 bits, least significant byte first, version 1
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
LOADABLE = (2, 3)  # ET_EXEC, ET_DYN: an object file (1) is linked by its symbols
NULL, NOBITS = 0, 8  # types of sections that have no bytes in the file
ALLOC = 0x2  # the flag of a section that is loaded
ALIGNMENT = 8
WORTHWHILE = 64 << 10  # bytes: a file that would lose less stays as it is
LONGEST = 1 << 20  # bytes of names of sections, which are held in memory


class Header(NamedTuple):
    """The first bytes of a file; offsets and sizes in bytes."""

    ident: bytes
    type: int
    machine: int
    version: int
    entry: int
    segments_at: int
    sections_at: int
    flags: int
    size: int
    segment_size: int
    segments: int
    section_size: int
    sections: int
    names: int


class Section(NamedTuple):
    """A row of the table of sections."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


EMPTY = Section(0, NULL, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Outline:
    """What stays of a file: the bytes before `end`, with another header; the names of sections; the table of sections.

    `names` are the bytes of the file that have the names, as a range.
    """

    header: bytes
    end: int
    names: range
    table: bytes

    @property
    def size(self) -> int:
        """Return the size in bytes of what stays."""
        return _aligned(_aligned(self.end) + len(self.names)) + len(self.table)

    def to_json(self) -> list[object]:
        """Return it as JSON can hold it."""
        return [self.header.hex(), self.end, self.names.start, self.names.stop, self.table.hex()]

    @staticmethod
    def of_json(value: Any) -> Outline:
        """Return what `to_json` wrote."""
        header, end, start, stop, table = value
        return Outline(bytes.fromhex(header), end, range(start, stop), bytes.fromhex(table))


def outline(stream: IO[bytes], size: int) -> Outline | None:
    """Return what stays of a file of `size` bytes without its symbols, or None for one that stays as it is.

    Reads the stream to its table of sections, which is at the end.
    """
    try:
        header = Header(*HEADER.unpack(stream.read(HEADER.size)))
        if not _is_usual(header, size):
            return None
        segments = stream.read(header.segments * SEGMENT.size)
        end = max(offset + length for _, _, offset, _, _, length, _, _ in SEGMENT.iter_unpack(segments))
        passed = HEADER.size + len(segments)
        if not passed <= end <= header.sections_at:
            return None
        _skip(stream, header.sections_at - passed)
        found = [Section(*row) for row in SECTION.iter_unpack(stream.read(header.sections * SECTION.size))]
    except (struct.error, ValueError):  # cut short, or without a segment
        return None
    return _outline(header, end, found, size) if len(found) == header.sections else None


def _is_usual(header: Header, size: int) -> bool:
    """Return whether a file has the tables that linkers write: segments behind the header, sections at the end."""
    return (
        header.ident.startswith(IDENT)
        and header.type in LOADABLE
        and (header.size, header.segments_at) == (HEADER.size, HEADER.size)
        and (header.segment_size, header.section_size) == (SEGMENT.size, SECTION.size)
        and header.names < header.sections
        and header.sections_at + header.sections * SECTION.size <= size
    )


def _outline(header: Header, end: int, sections: list[Section], size: int) -> Outline | None:
    names = sections[header.names]
    if names.size > LONGEST or not end <= names.offset <= header.sections_at - names.size:
        return None
    if any(section.flags & ALLOC and not _is_before(section, end) for section in sections):
        return None
    rows = [section if _is_before(section, end) else EMPTY for section in sections]
    rows[header.names] = names._replace(offset=_aligned(end))
    kept = range(names.offset, names.offset + names.size)
    moved = header._replace(sections_at=_aligned(_aligned(end) + len(kept)))
    found = Outline(HEADER.pack(*moved), end, kept, b"".join(SECTION.pack(*row) for row in rows))
    return found if size - found.size >= WORTHWHILE else None


def _is_before(section: Section, end: int) -> bool:
    return section.type in (NULL, NOBITS) or section.offset + section.size <= end


def without(chunks: Iterable[bytes], kept: Outline) -> Iterator[bytes]:
    """Yield a file, given from its beginning, without its symbols."""
    position, names = 0, bytearray()
    for data in chunks:
        head = data[: max(0, kept.end - position)]
        if head:
            yield head if position else kept.header + head[len(kept.header) :]
        names += data[max(0, kept.names.start - position) : max(0, kept.names.stop - position)]
        position += len(data)
    yield bytes(-kept.end % ALIGNMENT) + names + bytes(-len(names) % ALIGNMENT) + kept.table


def _skip(stream: IO[bytes], count: int) -> None:
    while count > 0 and (data := stream.read(min(CHUNK, count))):
        count -= len(data)


def _aligned(offset: int) -> int:
    return offset + -offset % ALIGNMENT
