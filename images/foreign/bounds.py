"""How much of what others wrote is read, and how much it may unpack to: deflate reaches 1032 times its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class Bound:
    """So many times the bytes of a file, or `least` bytes if that is more."""

    times: int
    least: int

    def of(self, size: int) -> int:
        """Return how many bytes a file of `size` bytes may unpack to."""
        return max(self.least, self.times * size)


LAYER = Bound(100, 4 << 30)  # files that are mostly holes make real layers large
WHEEL = Bound(30, 64 << 20)  # and a source archive; of a thousand wheels of PyPI one had 18 times, no other more than 8
DEB = Bound(100, 64 << 20)  # a part of a Debian package; of those that an image has one had 20 times


class Bounded:
    """A file of which no more than `most` bytes are read, wherever they are: some are read again and again."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._most, self._left = file, most, most
        self.seek, self.tell = file.seek, file.tell

    def read(self, count: int = -1) -> bytes:
        """Read up to so many bytes.

        Raises ValueError when more than `most` have been read in all.
        """
        data = self._file.read(count)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {self._most} bytes")
        return data
