"""The entries of a layer, one line each: kind and mode, owner, path, and what is there."""

from __future__ import annotations

import hashlib
import io
import posixpath
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from images.oci import compression

KINDS = {tarfile.REGTYPE: "-", tarfile.DIRTYPE: "d", tarfile.SYMTYPE: "l", tarfile.LNKTYPE: "h"}


@dataclass(frozen=True)
class Entry:
    """An entry: its path, where it leads to if it is a link, and its content if it is a file."""

    path: str
    head: str
    link: str
    content: bytes | None

    @property
    def place(self) -> str:
        """Say what is there, whatever is in it."""
        return f"{self.head} {self.path}" + (f" -> {self.link}" if self.link else "")

    @property
    def line(self) -> str:
        """Say what is there, and of a file how long it is and how its sha256 begins."""
        if self.content is None:
            return self.place
        return f"{self.place} {len(self.content)} {hashlib.sha256(self.content).hexdigest()[:16]}"


def read(layer: Path) -> list[Entry]:
    """Read the entries of a layer, in their order."""
    with compression.open_layer(layer) as plain:
        data = b"".join(iter(lambda: plain.read(1 << 20), b""))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return [_entry(info, tar) for info in tar]


def without(entries: Sequence[Entry], ends: tuple[str, ...]) -> list[Entry]:
    """Leave out files by the ends of their names, and the directories that then have nothing in them any more."""
    files = [entry for entry in entries if not entry.head.startswith("d")]
    kept = {entry.path for entry in files if not entry.path.endswith(ends)}
    filled, full = (_above(paths) for paths in (kept, {entry.path for entry in files}))
    return [
        entry for entry in entries if entry.path in kept | filled or (entry.head[0] == "d" and entry.path not in full)
    ]


def _entry(info: tarfile.TarInfo, tar: tarfile.TarFile) -> Entry:
    head = f"{KINDS[info.type]}{info.mode:04o} {info.uid}:{info.gid}"
    file = tar.extractfile(info) if info.isreg() else None
    return Entry(info.name, head, info.linkname, file.read() if file else None)


def _above(paths: set[str]) -> set[str]:
    directories = set()
    for path in paths:
        while path := posixpath.dirname(path):
            directories.add(path)
    return directories
