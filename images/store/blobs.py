"""Blobs by sha256: what oci/, wheels/ and foreign/ need of whoever keeps them, and how they are hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

BLOB = "blob"  # the name of a file that has none but its digest: a layer, or a part of a base image
CHUNK = 1 << 20  # bytes that are read at a time

Advance = Callable[[int], None]  # called with the size of what came, in bytes


class Readable(Protocol):
    """What can be read."""

    def read(self, count: int, /) -> bytes:
        """Read up to so many bytes, none only at the end."""


class Cached(NamedTuple):
    """A value that JSON can hold, and whether an earlier build made it."""

    value: Any
    reused: bool


class Blobs(Protocol):
    """A place that keeps files by their sha256; images/store/store.py is the one of build.py."""

    root: Path

    def place(self, digest: str, name: str = BLOB) -> Path:
        """Return where a blob lies, or would lie.

        Raises UserFault for what is no sha256 or no file name.
        """

    def blob(self, digest: str, name: str = BLOB, size: int | None = None) -> Path | None:
        """Return where a blob is, None where there is none; one of another size (bytes) is removed."""

    def has(self, digest: str, size: int | None = None) -> bool:
        """Return whether a blob is there, of this size if that is known."""

    def verified(self, digest: str, name: str) -> Path | None:
        """Return where a blob is that has this sha256; a damaged one is removed, and None returned."""

    def drop(self, path: Path) -> None:
        """Remove a damaged file."""

    def keep(self, aside: Path, digest: str, name: str = BLOB) -> Path:
        """Move a finished file to its place, in one step."""

    def temporary(self, *, directory: bool = False) -> AbstractContextManager[Path]:
        """Yield a path to write to; whatever is still there at the end is removed."""

    def cached(
        self, kind: str, inputs: object, make: Callable[[], object], usable: Callable[[Any], bool] = lambda _: True
    ) -> Cached:
        """Return what `make` returned for these inputs, now or in an earlier build."""


def sha256(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return copied(read_chunks(file))[0]


def read_chunks(file: Readable) -> Iterator[bytes]:
    """Yield what is left of a file, CHUNK bytes at a time."""
    return iter(lambda: file.read(CHUNK), b"")


def copied(chunks: Iterable[bytes], write: Callable[[bytes], object] = lambda _: None) -> tuple[str, int]:
    """Hand each chunk to `write`; return sha256 (hexadecimal) and size of all of them."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
        write(chunk)
    return digest.hexdigest(), size
