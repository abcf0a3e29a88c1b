"""Shared libraries that others wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import IO, Any, cast

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

MOST = 10_000  # entries that are read of one table: libc has 70, and a damaged count may say billions
MOST_READ = 64 << 20  # bytes that are read of a library, again and again the same if it says so

# What pyelftools raises for damaged files besides its own errors; found by changing bytes at random.
BROKEN = (ELFError, AssertionError, AttributeError, LookupError, OSError, OverflowError, TypeError, ValueError)


class Measured:
    """A library of which no more than MOST_READ bytes are read: one name of megabytes may be that of every entry."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._left = file, MOST_READ
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        """Read up to so many bytes.

        Raises ELFError when more than MOST_READ have been read in all.
        """
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ELFError("too much to read")
        return data


def entries(library: IO[bytes], name: str, read: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """List the entries that `read` finds in the section of a name; a damaged file, or one without it, has none."""
    try:
        section = ELFFile(cast("IO[bytes]", Measured(library))).get_section_by_name(name)
        return list(islice(read(section), MOST)) if section else []
    except BROKEN:
        return []
