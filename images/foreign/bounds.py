"""How much compressed files that others wrote may unpack to; deflate can reach 1032 times their bytes, zstd more."""

from __future__ import annotations

from dataclasses import dataclass


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
