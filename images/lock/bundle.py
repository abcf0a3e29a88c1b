"""A lock in a file, or with all its files in one directory or tar: what a build needs where there is no network."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from images.foreign import tars
from images.foreign.paths import flaw
from images.host.disk import files
from images.host.disk.faults import is_read_from
from images.host.errors import UserFault, WorldFault
from images.host.store import CHUNK, Store
from images.lock import lockfile
from images.lock.missing import origin
from images.model import BLOB, Lock
from images.oci.archive import file_header
from images.oci.output import require_writable

LOCK = lockfile.NAME
SUMS = "SHA256SUMS"
BASE = "base"  # the directory of the parts of a base image
REMEDY = "a directory or .tar that build.py bundle wrote"
ROOM = "--output with a path that can be written and has room for it"
LONGEST = 64 << 20  # bytes: of the lock and of the list of sums; real ones have some hundred kilobytes

Open = Callable[[str], IO[bytes]]


def write_lock(lock: Lock, place: Path) -> None:
    """Write a lock alone to a file; what is there already stays as it was until the new one is whole.

    Raises WorldFault when it cannot be written.
    """
    try:
        files.write_whole(place, lockfile.text(lock, with_origin=True).encode())
    except OSError as error:
        raise WorldFault("cannot write the lock", f"{place} ({error.strerror})", ROOM) from error


def require_free(target: str) -> Path:
    """Return where a bundle can be written, without links: to a new file, or to a directory that is new or empty.

    Raises UserFault when the place is taken, or where another disk is mounted, which nothing can be moved onto.
    """
    place = Path(os.path.realpath(target))
    may_be_there = place.is_dir() and place.suffix != ".tar" and not any(place.iterdir())
    if os.path.lexists(place) and not may_be_there:
        raise UserFault("something is there already", target, "another --output, or remove it")
    if os.path.ismount(place):
        raise UserFault("a bundle cannot take the place of a mounted disk", target, f"--output {place / 'bundle'}")
    require_writable(next(parent for parent in place.parents if parent.is_dir()))
    return place


def write(lock: Lock, store: Store, target: str) -> Path:
    """Write a bundle: into a file where the name ends in .tar, else into a directory.

    Raises UserFault when the place is taken, WorldFault when it cannot be written.
    """
    place = require_free(target)
    texts, blobs = _contents(lock, store)
    write_to = _write_tar if place.suffix == ".tar" else _write_directory
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(place) as aside:
            write_to(aside, texts, blobs)
    except OSError as error:
        if is_read_from(store.root, error):
            raise
        raise WorldFault("cannot write the bundle", f"{place} ({error.strerror})", ROOM) from error
    return place


def _contents(lock: Lock, store: Store) -> tuple[dict[str, bytes], dict[str, Path]]:
    """List what goes in: short texts by name, and files of the store; SHA256SUMS is as sha256sum(1) reads it."""
    text = lockfile.text(lock, with_origin=True).encode()
    sums = {LOCK: hashlib.sha256(text).hexdigest()}
    blobs = {}
    for digest, name in lock.files():
        inside = f"{BASE}/{digest}" if name == BLOB else lockfile.place(name)
        sums[inside] = digest
        blobs[inside] = store.place(digest, name)
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    return {LOCK: text, SUMS: listing.encode()}, blobs


def _write_directory(place: Path, texts: dict[str, bytes], blobs: dict[str, Path]) -> None:
    place.mkdir(parents=True)
    for name, data in texts.items():
        (place / name).write_bytes(data)
    for name, source in blobs.items():
        (place / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source, place / name)


def _write_tar(place: Path, texts: dict[str, bytes], blobs: dict[str, Path]) -> None:
    with tarfile.open(place, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in sorted(texts.items()):
            tar.addfile(file_header(name, len(data)), io.BytesIO(data))
        for name, source in sorted(blobs.items()):
            with source.open("rb") as file:
                tar.addfile(file_header(name, source.stat().st_size), file)


def take(place: str, store: Store) -> str:
    """Bring everything of a bundle into the store; return its lock.

    Raises UserFault when it is no bundle, WorldFault when it is cut short, or a file in it is damaged or missing.
    """
    with _opened(place) as open_:
        sums = _sums(open_, place)
        for name, digest in sums.items():
            if name != LOCK:
                _take_one(open_, name, digest, place, store)
        with _file(open_, LOCK, place) as file:
            text = file.read(LONGEST)
    if hashlib.sha256(text).hexdigest() != sums.get(LOCK):
        raise WorldFault("a file of the bundle is damaged", f"{place}: {LOCK}", "copy the bundle again")
    return text.decode(errors="replace")


@contextmanager
def _opened(place: str) -> Iterator[Open]:
    """Open a bundle; what is yielded opens a regular file in it by name, or raises FileNotFoundError."""
    path = Path(place)
    tar = _tar(path, place)
    if tar is None:
        yield lambda name: _in_directory(path / name)
        return
    try:
        with tar:
            members = tars.listed(tar, path.stat().st_size)
            yield lambda name: _in_tar(tar, members[name])
    except tars.CutShort as error:
        raise WorldFault("the bundle is damaged", f"{place} ({error})", "copy the bundle again") from error
    except tarfile.TarError as error:
        raise UserFault("that is not a bundle", f"{place} ({error})", REMEDY) from error


def _tar(path: Path, place: str) -> tarfile.TarFile | None:
    """Open a bundle that is a tar; return None for one that is a directory."""
    try:
        return None if path.is_dir() else tars.open_file(path)
    except FileNotFoundError as error:
        raise UserFault("there is no such bundle", place, REMEDY) from error
    except OSError as error:
        raise UserFault("cannot read the bundle", f"{place} ({error.strerror})", REMEDY) from error
    except tarfile.TarError as error:
        raise UserFault("that is not a bundle", f"{place} ({error})", REMEDY) from error


def _in_directory(path: Path) -> IO[bytes]:
    if not path.is_file():  # a directory cannot be read, and a pipe would be waited for
        raise FileNotFoundError(path)
    return path.open("rb")


def _in_tar(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(info) if info.isreg() else None
    if file is None:
        raise FileNotFoundError(info.name)
    return file


def _sums(open_: Open, place: str) -> dict[str, str]:
    try:
        with open_(SUMS) as file:
            lines = file.read(LONGEST).decode(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError, KeyError) as error:
        raise UserFault("that is not a bundle", f"{place} (no {SUMS})", REMEDY) from error
    rows = [line.split("  ", 1) for line in lines]
    if not all(len(row) == 2 and re.fullmatch("[0-9a-f]{64}", row[0]) and flaw(row[1]) is None for row in rows):
        raise WorldFault("a file of the bundle is damaged", f"{place}: {SUMS}", "copy the bundle again")
    return {name: digest for digest, name in rows}


def _file(open_: Open, name: str, place: str) -> IO[bytes]:
    try:
        return open_(name)
    except (FileNotFoundError, KeyError) as error:
        instead = f"put {name} there; it normally comes from {origin(PurePosixPath(name).name)}"
        if name == LOCK:  # no other lock belongs to these files
            instead = "make it again: build.py bundle"
        remedy = f"copy the bundle again, or {instead}"
        raise WorldFault("a file of the bundle is missing", f"{place}: {name}", remedy) from error


def _take_one(open_: Open, name: str, digest: str, place: str, store: Store) -> None:
    base = BLOB if name.startswith(f"{BASE}/") else PurePosixPath(name).name
    if store.whole(digest, base):
        return
    hashed = hashlib.sha256()
    with store.aside() as path:
        with _file(open_, name, place) as source, path.open("wb") as file:
            while chunk := source.read(CHUNK):
                hashed.update(chunk)
                file.write(chunk)
        if hashed.hexdigest() != digest:
            fact = "a file of the bundle is damaged"
            raise WorldFault(fact, f"{place}: {name} ({hashed.hexdigest()}, not {digest})", "copy the bundle again")
        store.keep(path, digest, base)
