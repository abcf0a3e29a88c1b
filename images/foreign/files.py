"""Files that others wrote, in a directory or in a tar: opened by their paths, and brought into the store."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from images.foreign import tars
from images.foreign.paths import HOPS, below_root
from images.host.errors import UserFault, WorldFault
from images.store.blobs import CHUNK, Blobs, copied

AGAIN = "copy or save it again: it is damaged"
MOST = 20_000  # entries of a tar: an image has two for each layer, a bundle some hundreds


@dataclass(frozen=True)
class Files:
    """Files by their paths; `name` is what messages call all of them.

    `has` says whether anything is at a path; `pieces` raises FileNotFoundError for what is no file.
    """

    name: str
    has: Callable[[str], bool]
    pieces: Callable[[str], Iterator[bytes]]

    def chunks(self, path: str, most: int | None = None) -> Iterator[bytes]:
        """Yield the content of a file.

        Raises WorldFault where it is missing, cannot be read or has more than `most` bytes.
        """
        size = 0
        try:
            for piece in self.pieces(path):
                size += len(piece)
                if most is not None and size > most:
                    raise WorldFault("a file is too long", f"{self.name}: {path} (more than {most} bytes)", AGAIN)
                yield piece
        except FileNotFoundError as error:
            raise WorldFault("a file is missing", f"{self.name}: {path}", AGAIN) from error
        except OSError as error:
            raise WorldFault("a file cannot be read", f"{self.name}: {path} ({error})", AGAIN) from error

    def read(self, path: str, most: int) -> bytes:
        """Return the content of a document, as `chunks` does."""
        return b"".join(self.chunks(path, most))

    def keep(
        self, path: str, place: tuple[str, str], store: Blobs, most: int | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Path:  # fmt: skip
        """Bring a file to its place in the store, (sha256, name), unless it is there undamaged.

        Raises WorldFault as `chunks` does, and where it has another sha256.
        """
        if kept := store.verified(*place):
            return kept
        with store.temporary() as aside:
            with aside.open("wb") as file:
                got, _ = copied(self.chunks(path, most), lambda chunk: advance(file.write(chunk)))
            if got != place[0]:
                value = f"{self.name}: {path} ({got}, not {place[0]})"
                raise WorldFault("a file is damaged: it has another sha256", value, AGAIN)
            return store.keep(aside, *place)


def open_directory(root: Path, name: str) -> Files:
    """Return the files of a directory."""

    def pieces(path: str) -> Iterator[bytes]:
        if not (root / path).is_file():  # a pipe would be waited for, and a device read without end
            raise FileNotFoundError(path)
        return _pieces(root / path, 0, (root / path).stat().st_size)

    return Files(name, lambda path: (root / path).exists(), pieces)


def open_tar(place: Path, name: str, remedy: str, *, plain: bool) -> Files:
    """Return the files of a tar; one that is `plain` has nothing that readers of tars read in several ways.

    Raises UserFault with `remedy` when it is none that can be read, WorldFault when it is cut short.
    """
    if place.exists() and not place.is_file() and not place.is_dir():  # a pipe would be waited for
        raise UserFault("what is there is not a file", place, "save it to a file first, and name that")
    members: dict[str, tarfile.TarInfo] = {}
    try:
        with place.open("rb") as file:
            for info in tars.Tar(file, plain=plain):
                info.offset_data = file.tell()
                _add_member(members, info)
        if not members:
            raise tarfile.ReadError("it has no entries")
        if plain:
            _refuse_below_files(members)
    except (tarfile.TarError, OSError) as error:
        if isinstance(error, tars.CutShort) and members:
            raise WorldFault("the archive is cut short", name, AGAIN) from error
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a whole tar, or compressed"
        raise UserFault("cannot read the archive", f"{name} ({reason})", remedy) from error

    def pieces(path: str) -> Iterator[bytes]:
        member = _follow_links(members, path)
        return _pieces(place, member.offset_data, member.size)

    return Files(name, members.__contains__, pieces)


def _pieces(path: Path, start: int, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while size > 0 and (piece := file.read(min(size, CHUNK))):
            size -= len(piece)
            yield piece


def _add_member(members: dict[str, tarfile.TarInfo], info: tarfile.TarInfo) -> None:
    """Add an entry by its path; refuse two of one path, unless both are directories."""
    path = below_root(info.name)
    if path in members and not (info.isdir() and members[path].isdir()):
        raise tarfile.ReadError(f"{path[:80]!r} is there twice")
    members[path] = info
    if len(members) > MOST:
        raise tarfile.ReadError("too large")


def _refuse_below_files(members: Mapping[str, tarfile.TarInfo]) -> None:
    """Raise ReadError for an entry below what is no directory: readers follow a link there, or make a directory."""
    for path in members:
        for above in map(str, PurePosixPath(path).parents):
            if above in members and not members[above].isdir():
                raise tarfile.ReadError(f"{path[:80]!r} is below {above[:80]!r}, which is no directory")


def _follow_links(members: Mapping[str, tarfile.TarInfo], path: str) -> tarfile.TarInfo:
    """Return the file at a path, through links: `docker save` writes one to a layer that it has written already."""
    for _ in range(HOPS):
        info = members.get(below_root(path))
        if info is None or info.isreg():
            break
        path = posixpath.join(posixpath.dirname(info.name), info.linkname) if info.issym() else info.linkname
    if info is None or not info.isreg():
        raise FileNotFoundError(path)
    return info
