"""The layers of an image, and the directories below one, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Written:
    """A finished layer: sha256 of the tar and of its compressed form, and both sizes in bytes."""

    diff_id: str
    digest: str
    size: int
    unpacked: int


@dataclass(frozen=True)
class Layer:
    """One layer of an image: its name, what was written, and whether it was there already.

    `packed` is how a layer of a pulled base is compressed, which it stays; all others are zstd in the store.
    """

    name: str
    written: Written
    reused: bool
    packed: str | None = None


@dataclass(frozen=True)
class Directories:
    """The directories below a layer: path -> (mode, uid, gid), and links to them, such as lib -> usr/lib."""

    owners: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def resolve(self, path: str) -> str:
        """Follow the links of the base in a path: an entry at `lib/x` would replace the link."""
        for slash in re.finditer("/", path):
            if (head := path[: slash.start()]) in self.links:
                return self.resolve(f"{self.links[head]}{path[slash.start() :]}".lstrip("/"))
        return path
