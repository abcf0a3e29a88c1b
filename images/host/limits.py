"""How much is read of what comes from outside, how slowly, how much it may unpack to: numbers of docs/security.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class Limit:
    """At most so many bytes of something; `of` is what the page calls it."""

    of: str
    most: int


KNOWN = Limit("a file whose sha256 is known", 4 << 30)  # a wheel of torch has 200 MB
UNKNOWN = Limit("a file whose sha256 is not known, such as the archive of the examples", 256 << 20)
RELEASE = Limit("Debian's signed index of a suite", 16 << 20)  # Debian's have 150,000 bytes
ANSWER = Limit("an answer of Debian's snapshots", 16 << 20)
PAGE = Limit("a page of a package index, unpacked", 32 << 20)  # PyPI's largest have some megabytes
HTML = Limit("a page of a package index in HTML", 16 << 20)  # asked for last; all of PyPI's are in JSON, too
# What a registry must take at least (OCI distribution specification 1.1, "Pushing Manifests").
MANIFEST = Limit("a manifest, an index or a list in a registry, unpacked", 4 << 20)
CONFIG = Limit("the configuration of an image", 8 << 20)
INSIDE = Limit("the lock or the SBOM in an image", 64 << 20)  # real ones have some hundred kilobytes
TOKEN = Limit("a registry's answer with a token, unpacked", 1 << 20)

TABLE = (KNOWN, UNKNOWN, RELEASE, ANSWER, PAGE, HTML, MANIFEST, CONFIG, INSIDE, TOKEN)

# A download that brings less than so many bytes a second, over so many seconds, has an end, too.
SLOWEST, WINDOW = 4 << 10, 60
PATIENCE = 300.0  # seconds: in which nothing moves of what skopeo does, and for all of a registry's lists of an image


# How much of what others wrote is read, and how much it may unpack to: deflate reaches 1032 times its bytes.


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
