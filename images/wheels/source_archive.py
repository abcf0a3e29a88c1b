"""A source archive from outside: its files by their paths below the top directory, within bounds."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from images.foreign import bounds
from images.foreign.bounds import Bounded
from images.foreign.paths import find_flaw
from images.foreign.tars import Tar

GZIP = b"\x1f\x8b"  # how a compressed one begins (RFC 1952): those of releases, and of PyPI (PEP 625)


class ArchiveFile(NamedTuple):
    """A file of an archive: its path below the top directory, content and mode."""

    path: str
    data: bytes
    mode: int


def read_files(path: Path, is_asked_for: Callable[[str], bool], *, bare: bool = False) -> Iterator[ArchiveFile]:
    """Yield the files of an archive that a caller asks for, in its order, also two at one path: the later one counts.

    Links and devices are left out. A `bare` archive may have no top directory: a file is also asked for by its whole
    path.
    Raises ValueError when it cannot be read, when a name leads elsewhere, or when it unpacks to too much.
    """
    try:
        with _opened(path) as file:
            tar = Tar(Bounded(file, bounds.WHEEL.of(path.stat().st_size)))
            for info in tar:
                name = info.name.removeprefix("./")
                if info.isdir():
                    continue
                if flaw := find_flaw(name):
                    raise ValueError(f"the name {info.name!r} {flaw}")
                below = name if bare and is_asked_for(name) else name.partition("/")[2]
                if is_asked_for(below) and info.isfile():
                    yield ArchiveFile(below, tar.read(), 0o755 if info.mode & 0o111 else 0o644)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(str(error) or "it is cut short") from error


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        is_packed = file.read(2) == GZIP
    return cast("IO[bytes]", gzip.GzipFile(path)) if is_packed else path.open("rb")
