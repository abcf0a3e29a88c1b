"""Files that others wrote, in a directory or in a tar: opened by their paths, and brought into the store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from images.foreign import tars
from images.host.errors import UserFault, WorldFault
from images.host.store import CHUNK, Store

AGAIN = "copy or save it again: it is damaged"


@dataclass(frozen=True)
class Files:
    """Files by their paths; `name` is what messages call all of them.

    `has` says whether anything is at a path; `open` raises FileNotFoundError for what is no file.
    """

    name: str
    has: Callable[[str], bool]
    open: Callable[[str], IO[bytes]]

    def chunks(self, path: str, most: int | None = None) -> Iterator[bytes]:
        """Yield the content of a file.

        Raises WorldFault where it is missing, cannot be read or has more than `most` bytes.
        """
        try:
            file = self.open(path)
        except FileNotFoundError as error:
            raise WorldFault("a file is missing", f"{self.name}: {path}", AGAIN) from error
        size = 0
        try:
            with file:
                while chunk := file.read(CHUNK):
                    size += len(chunk)
                    if most is not None and size > most:
                        raise WorldFault("a file is too long", f"{self.name}: {path} (more than {most} bytes)", AGAIN)
                    yield chunk
        except tars.CONTENT as error:
            raise WorldFault("a file cannot be read", f"{self.name}: {path} ({error})", AGAIN) from error

    def read(self, path: str, most: int) -> bytes:
        """Return the content of a document, as `chunks` does."""
        return b"".join(self.chunks(path, most))

    def keep(
        self, path: str, place: tuple[str, str], store: Store, most: int | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Path:  # fmt: skip
        """Bring a file to its place in the store, (sha256, name), unless it is there undamaged.

        Raises WorldFault as `chunks` does, and where it has another sha256.
        """
        if found := store.verified(*place):
            return found
        hashed = hashlib.sha256()
        with store.temporary() as aside:
            with aside.open("wb") as file:
                for chunk in self.chunks(path, most):
                    hashed.update(chunk)
                    file.write(chunk)
                    advance(len(chunk))
            if (got := hashed.hexdigest()) != place[0]:
                value = f"{self.name}: {path} ({got}, not {place[0]})"
                raise WorldFault("a file is damaged: it has another sha256", value, AGAIN)
            return store.keep(aside, *place)


def in_directory(root: Path, name: str) -> Files:
    """Return the files of a directory."""

    def open_(path: str) -> IO[bytes]:
        if not (root / path).is_file():  # a pipe would be waited for, and a device read without end
            raise FileNotFoundError(path)
        return (root / path).open("rb")

    return Files(name, lambda path: (root / path).exists(), open_)


@contextmanager
def in_tar(path: Path, name: str, remedy: str, *, plain: bool) -> Iterator[Files]:
    """Open a tar; one that is `plain` has no headers that readers of tars read in several ways.

    Raises UserFault with `remedy` when it is none that can be read, WorldFault when it is cut short.
    """
    try:
        tar = tars.open_file(path)
        try:
            members = tars.listed(tar)
            if plain:
                tars.refuse_unusual(tar, members)
        except BaseException:
            tar.close()
            raise
    except tars.CutShort as error:
        raise WorldFault("the archive is cut short", name, AGAIN) from error
    except tars.CONTENT as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else "not a whole tar, or compressed"
        raise UserFault("cannot read the archive", f"{name} ({said})", remedy) from error

    def open_(path: str) -> IO[bytes]:
        try:
            file = tar.extractfile(members[tars.below_root(path)])
        except (KeyError, RecursionError):  # the latter follows a link to itself
            file = None
        if file is None:
            raise FileNotFoundError(path)
        return file

    with tar:
        yield Files(name, lambda path: path in members, open_)
