"""The user's own files: below an image's working directory as COPY puts them there.

What is kept of a file is its path, its content and whether it may be run: an owner, a time and an empty directory say
nothing that is the same for everybody.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import IO, NoReturn

from images.content import AT_START
from images.foreign import paths
from images.foreign.paths import Line
from images.host.errors import UserFault, named
from images.host.files import is_plain
from images.plan import ignored
from images.plan.ignored import Pattern
from images.store.blobs import CHUNK

USER_FILE = "file"  # what one is called in the store: of two that are equal there is one
WORKSPACE = "workspace"  # the working directory of an image
IGNORE = ".dockerignore"
OURS = ("output", ".cache", "transformers")  # of the image itself in that directory: results, models, the examples
MOST, LARGEST = 5000, 1 << 30  # files, and bytes of all of them: a script and its modules, no data
LONGEST = 1 << 20  # bytes of a .dockerignore
VENV = "pyvenv.cfg"  # in every virtual environment (PEP 405), whose programs are for the machine that made it


@dataclass(frozen=True)
class UserFile:
    """A file of the user's own, by its path below WORKSPACE: the sha256 of its content, or what it links to."""

    path: Line
    sha256: str | None = None
    executable: bool = False
    target: Line | None = None


def read_user_files(scripts: Sequence[str], directory: str | None) -> dict[UserFile, Path]:
    """Return every file, by its path, and where it lies here.

    Raises UserFault for one that cannot be in the image, or belongs into no image.
    """
    places: dict[str, Path] = {}
    for path, place in (
        *([*_files_of_directory(directory)] if directory is not None else ()),
        *map(_named_script, scripts),
    ):
        if path in places and places[path].read_bytes() != place.read_bytes():
            value = f"{places[path]} and {place} (/workspace/{path})"
            raise UserFault("two files of your own have one place in the image", value, "another name for one of them")
        places[path] = place
    _require_fit(places)
    return {_user_file(path, places[path]): places[path] for path in sorted(places)}


def list_differences(locked: Iterable[UserFile], asked: Iterable[UserFile]) -> Iterator[str]:
    """Yield how files differ from those of a lock, by their paths."""
    there, here = ({one.path: one for one in rows} for rows in (locked, asked))
    for path in sorted(there.keys() | here.keys()):
        if there.get(path) != here.get(path):
            yield f"{path}: {_describe_file(here.get(path))} here, {_describe_file(there.get(path))} in the lock"


def require_rows(rows: Iterable[UserFile]) -> None:
    """Raise ValueError for a row of a lock that is no file of a user's."""
    seen = set[str]()
    for row in rows:
        if (row.sha256 is None) == (row.target is None) or row.path in seen:
            raise ValueError(f"user-files: {row.path!r} is not one file")
        if flaw := _name_flaw(row.path) or (row.target is not None and _odd_target(row.path, row.target)):
            raise ValueError(f"user-files: {row.path!r} {flaw}")
        seen.add(row.path)


def _describe_file(row: UserFile | None) -> str:
    if row is None:
        return "none"
    said = f"a link to {row.target}" if row.sha256 is None else f"sha256:{row.sha256}"
    return f"{said}, a program" if row.executable else said


def _named_script(typed: str) -> tuple[str, Path]:
    place = Path(typed)
    if place.is_dir():
        raise UserFault("a script is one file, and that is a directory", typed, f"--workdir {typed}")
    if not place.exists():
        raise UserFault("there is no such file", typed, "--script FILE with its path")
    if not is_plain(place):
        raise UserFault("that is not a file", typed, "--script FILE with its path")
    return place.name, place.resolve() if place.is_symlink() else place


def _files_of_directory(typed: str) -> Iterator[tuple[str, Path]]:
    """Yield what a .dockerignore leaves in a directory; empty directories stay out."""
    root = Path(typed)
    if root.is_file():
        raise UserFault("that is a file, and not a directory", typed, f"--script {typed}")
    if not root.is_dir():
        raise UserFault("there is no such directory", typed, "--workdir DIR with its path")
    patterns, count = _read_patterns(root), 0
    for count, (path, place) in enumerate(_walk_directory(root, patterns), 1):
        if count > MOST:
            raise _too_much(f"{root} (more than {MOST} files)")
        yield path, place
    if not count:
        remedy = f"a directory with files in it, or fewer lines in {root / IGNORE}"
        raise UserFault("nothing of that directory goes into the image", typed, remedy)


def _walk_directory(root: Path, patterns: Sequence[Pattern]) -> Iterator[tuple[str, Path]]:
    for above, directories, files in os.walk(root, onerror=_refuse_unreadable):
        here = Path(above)
        below = {name: (here / name).relative_to(root).as_posix() for name in (*directories, *files)}
        out = {name for name, path in below.items() if ignored.leaves_out(patterns, path)}
        links = [name for name in directories if (here / name).is_symlink()]
        yield from ((below[name], here / name) for name in (*files, *links) if name not in out)
        gone = {*links, *(name for name in directories if os.access(here / name / VENV, os.F_OK))}
        inside = (name for name in directories if name not in gone)
        directories[:] = [name for name in inside if ignored.may_take_in(patterns, below[name])]


def _refuse_unreadable(error: OSError) -> NoReturn:
    value = f"{error.filename} ({error.strerror})"
    raise UserFault("a file of your own cannot be read", value, f"chmod or chown it, or a line in {IGNORE}")


def _read_patterns(root: Path) -> list[Pattern]:
    place, text = root / IGNORE, ""
    try:
        if is_plain(place):
            with place.open("rb") as file:
                data = file.read(LONGEST + 1)
            if len(data) > LONGEST:
                raise UserFault("a file is too long", f"{place} (more than {LONGEST} bytes)", "fewer lines in it")
            text = data.decode()
        return ignored.parse_lines(text)
    except OSError as error:
        _refuse_unreadable(error)
    except ValueError as error:
        raise UserFault("a line is no pattern", f"{place}: {error}", "correct that line") from error


def _require_fit(places: Mapping[str, Path]) -> None:
    """Raise UserFault for what cannot be in a layer, is in the way of the image's own, or is too much."""
    for path, place in places.items():
        if flaw := _name_flaw(path):
            raise UserFault("a file cannot be in an image", f"{place}: its path {flaw}", _without(path))
        if path.partition("/")[0] in OURS:
            raise UserFault("a place of your file is the image's own", f"{place} (/workspace/{path})", _without(path))
        if ignored.has_private_name(path):
            raise UserFault("a file of secrets would be in the image", place, f"{_without(path)}; {AT_START}")
    about = {place: place.lstat() for place in places.values()}
    if odd := [place for place, said in about.items() if not S_ISREG(said.st_mode) and not place.is_symlink()]:
        raise UserFault("that is neither a file nor a link", odd[0], f"a line in {IGNORE}")
    if (size := sum(said.st_size for said in about.values())) > LARGEST:
        largest = max(about, key=lambda place: about[place].st_size)
        raise _too_much(f"{size} bytes, not {LARGEST}; the largest is {largest}")


def _too_much(value: str) -> UserFault:
    remedy = f"lines in {IGNORE}; data are mounted: docker run -v $PWD/data:/workspace/data:ro"
    return UserFault("your files are more than an image should have", value, remedy)


def _without(path: str) -> str:
    return f"leave the file out, by a line `{path}` in {IGNORE}"


def _name_flaw(path: str) -> str | None:
    return paths.find_flaw(path) or (None if path.isprintable() else "has characters that cannot be printed")


def _user_file(path: str, place: Path) -> UserFile:
    try:
        if place.is_symlink():
            return UserFile(path, target=_link_target(path, place))
        with named(place), place.open("rb") as file:
            executable = bool(os.fstat(file.fileno()).st_mode & 0o111)
            return UserFile(path, _safe_digest(file, path, place), executable=executable)
    except OSError as error:
        _refuse_unreadable(error)


def _safe_digest(file: IO[bytes], path: str, place: Path) -> str:
    """Return the sha256 of a file; raise UserFault for one that has a secret in it."""
    digest, search = hashlib.sha256(), ignored.SecretSearch()
    while part := file.read(CHUNK):
        if kind := search.find(part):
            fact = "a file has a secret in it, which would be in the image"
            raise UserFault(fact, f"{place} ({kind})", f"take it out of the file, or {_without(path)}; {AT_START}")
        digest.update(part)
    return digest.hexdigest()


def _link_target(path: str, place: Path) -> str:
    """Return where a link leads; raise UserFault where that is not in the directory."""
    target, root = str(place.readlink()), place.parents[path.count("/")]
    inside = Path(os.path.realpath(place)).is_relative_to(os.path.realpath(root))
    if not inside or _odd_target(path, target):
        remedy = f"the file itself in its place, or a line `{path}` in {IGNORE}"
        raise UserFault("a link leads out of its directory", f"{place} -> {target}", remedy)
    return target


def _odd_target(path: str, target: str) -> str | None:
    """Return why nothing may link there, in words that go after the path of the link."""
    end = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith("/") or end.split("/")[0] == ".." or not target:
        return "leads out of its directory"
    return (
        "leads to a name that cannot be in a layer" if not target.isprintable() or paths.find_excess(target) else None
    )
