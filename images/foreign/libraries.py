"""Shared libraries that others wrote."""

from __future__ import annotations

import io
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

MOST_READ = 64 << 20  # bytes that are read of a library, again and again the same if it says so

# What pyelftools raises for damaged files besides its own errors; found by changing bytes at random.
BROKEN = (ELFError, AssertionError, AttributeError, LookupError, OSError, OverflowError, TypeError, ValueError)


class Measured(io.BytesIO):
    """A library of which no more than MOST_READ bytes are read: one name of megabytes may be that of every entry."""

    _left = MOST_READ

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to so many bytes.

        Raises ELFError when more than MOST_READ have been read in all.
        """
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ELFError("too much to read")
        return data


def section(library: bytes, name: str) -> Any:
    """Return a section of a library, None where it has none of that name.

    Raises one of BROKEN for a damaged one, now or when the section is read.
    """
    return ELFFile(Measured(library)).get_section_by_name(name)
