"""A lock in a file, or with all its files in one tar: what a build needs where there is no network."""

from __future__ import annotations

import os
from pathlib import Path

from images.foreign.files import open_tar
from images.host import limits
from images.host.errors import UserFault
from images.host.files import replacing, require_writable, write_whole
from images.lock import lockfile
from images.lock.lock import Lock
from images.oci import layer_writer
from images.plan.user_files import USER_FILE
from images.store.blobs import BLOB, read_chunks
from images.store.store import Store

LOCK = lockfile.NAME
REMEDY = "a file that build.py bundle wrote"
NAMELESS = {BLOB: "base", USER_FILE: "files"}


def write_lock(lock: Lock, place: Path) -> None:
    """Write a lock alone to a file; what is there already stays as it was until the new one is whole."""
    write_whole(place, lockfile.format_lock(lock, with_origin=True).encode())


def require_free(target: str) -> Path:
    """Return where a bundle can be written, without links.

    Raises UserFault when something is there.
    """
    place = Path(os.path.realpath(target))
    if os.path.lexists(place):
        raise UserFault("something is there already", target, "another --output, or remove it")
    require_writable(next(parent for parent in place.parents if parent.is_dir()))
    return place


def write_bundle(lock: Lock, store: Store, target: str) -> Path:
    """Write a bundle: the lock, and all files of it that the store has.

    Raises UserFault when the place is taken.
    """
    place = require_free(target)
    text = lockfile.format_lock(lockfile.without_addresses(lock), with_origin=True).encode()
    place.parent.mkdir(parents=True, exist_ok=True)
    with replacing(place) as aside, aside.open("wb") as tar:
        tar.writelines(layer_writer.stream_file(LOCK, len(text), (text,)))
        for inside, source in sorted({(_place_in_bundle(*part), store.place(*part)) for part in lock.files()}):
            with source.open("rb") as file:
                tar.writelines(layer_writer.stream_file(inside, source.stat().st_size, read_chunks(file)))
        tar.write(layer_writer.END)
    return place


def _place_in_bundle(digest: str, name: str) -> str:
    """Return where a file of a lock lies in a bundle; parts of a base image and the user's files have no names."""
    directory = NAMELESS.get(name)
    return f"{directory}/{digest}" if directory else lockfile.bundle_path(name)


def take_bundle(place: str, store: Store) -> str:
    """Bring everything of a bundle into the store; return its lock.

    Raises UserFault when it is no bundle, WorldFault when it is cut short, or a file in it is damaged or missing.
    """
    files = open_tar(Path(place), place, REMEDY, plain=False)
    if not files.has(LOCK):
        raise UserFault("that is not a bundle", f"{place} (no {LOCK})", REMEDY)
    text = files.read(LOCK, limits.INSIDE.most).decode(errors="replace")
    for digest, name in lockfile.parse_lock(text, f"{place}/{LOCK}").files():
        files.keep(_place_in_bundle(digest, name), (digest, name), store)
    return text
