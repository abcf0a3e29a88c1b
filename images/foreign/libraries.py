"""Shared libraries that others wrote."""

from __future__ import annotations

import io

from elftools.common.exceptions import ELFError

MOST_READ = 64 << 20  # bytes that are read of a library, again and again the same if it says so


class Measured(io.BytesIO):
    """A library of which no more than MOST_READ bytes are read: one name of megabytes may be that of every entry."""

    _left = MOST_READ

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to so many bytes.

        Raises ELFError when it has been enough.
        """
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ELFError("too much to read")
        return data
