"""A lock in a file, or with all its files in one directory or tar: what a build needs where there is no network."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from images.foreign.files import AGAIN, Files, in_directory, in_tar
from images.foreign.paths import flaw
from images.host.disk.files import replacing, write_whole
from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from images.lock import lockfile
from images.model import BLOB, Lock
from images.oci.archive import file_header
from images.oci.output import require_writable

LOCK = lockfile.NAME
SUMS = "SHA256SUMS"
BASE = "base"  # the directory of the parts of a base image
REMEDY = "a directory or .tar that build.py bundle wrote"
LONGEST = 64 << 20  # bytes: of the lock and of the list of sums; real ones have some hundred kilobytes


def write_lock(lock: Lock, place: Path) -> None:
    """Write a lock alone to a file; what is there already stays as it was until the new one is whole."""
    write_whole(place, lockfile.text(lock, with_origin=True).encode())


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

    Raises UserFault when the place is taken.
    """
    place = require_free(target)
    texts, blobs = _contents(lock, store)
    write_to = _write_tar if place.suffix == ".tar" else _write_directory
    place.parent.mkdir(parents=True, exist_ok=True)
    with replacing(place) as aside:
        write_to(aside, texts, blobs)
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
    with _opened(place) as files:
        if not files.has(SUMS):
            raise UserFault("that is not a bundle", f"{place} (no {SUMS})", REMEDY)
        sums = _sums(files)
        for name, digest in sums.items():
            if name != LOCK:
                files.keep(name, (digest, BLOB if name.startswith(f"{BASE}/") else PurePosixPath(name).name), store)
        text = files.read(LOCK, LONGEST)
    if hashlib.sha256(text).hexdigest() != sums.get(LOCK):
        raise WorldFault("a file is damaged", f"{place}: {LOCK}", AGAIN)
    return text.decode(errors="replace")


@contextmanager
def _opened(place: str) -> Iterator[Files]:
    try:
        is_directory = Path(place).is_dir()
    except OSError:  # what cannot be looked at cannot be opened either
        is_directory = False
    if is_directory:
        yield in_directory(Path(place), place)
        return
    with in_tar(Path(place), place, REMEDY, plain=False) as files:
        yield files


def _sums(files: Files) -> dict[str, str]:
    rows = [line.split("  ", 1) for line in files.read(SUMS, LONGEST).decode(errors="replace").splitlines()]
    if not all(len(row) == 2 and re.fullmatch("[0-9a-f]{64}", row[0]) and flaw(row[1]) is None for row in rows):
        raise WorldFault("a file is damaged", f"{files.name}: {SUMS}", AGAIN)
    return {name: digest for digest, name in rows}
