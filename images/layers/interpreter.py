"""Layers unpacked on the builder's disk: what the base's Python needs to run outside an image."""

from __future__ import annotations

import os
import posixpath
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, cast

from images.base.base import Base
from images.base.inspect import LIBRARIES
from images.base.overlay import OPAQUE, WHITEOUT
from images.host.errors import Damaged
from images.host.store import Store, key_of
from images.oci import compression
from images.oci.layer import Directories, Part

PACKAGES = ("site-packages", "dist-packages")  # of no use to an interpreter that only compiles


def unpack(store: Store, base: Base) -> Path:
    """Unpack the interpreter of a base once; return the root directory. It needs no root: owners are not kept."""
    root = store.tree(key_of([base.identity, base.interpreter]))
    if not root.is_dir():
        with store.aside(directory=True) as aside:
            _extract(store, base.layers, base.facts.directories, aside / "root", _needed(base.interpreter))
            root.parent.mkdir(exist_ok=True)
            try:
                (aside / "root").rename(root)
            except OSError:
                if not root.is_dir():  # another build may have been first
                    raise
    return root


def importable(store: Store, base: Base, above: Sequence[Part], root: Path) -> None:
    """Write what can be imported in an image to a directory: the packages of its base, and all that is above it."""
    sites = tuple(f"{site}/" for site in base.sites)
    _extract(store, base.layers, base.facts.directories, root, lambda path: path.startswith(sites))
    _extract(store, above, base.facts.directories, root, lambda _: True)


def libraries(interpreter: str) -> tuple[str, ...]:
    """Return the directories that an interpreter may have its libraries in."""
    return (*LIBRARIES, f"{_prefix(interpreter)}/lib".lstrip("/"))


def _prefix(interpreter: str) -> str:
    return posixpath.dirname(posixpath.dirname(interpreter))


def _extract(
    store: Store, parts: Sequence[Part], below: Directories, root: Path, needed: Callable[[str], bool]
) -> None:
    root.mkdir(exist_ok=True)
    for part in parts:
        path = store.whole(part.written.digest, "blob")
        if path is None:
            raise Damaged(store.place(part.written.digest))
        with compression.opened(path) as plain, tarfile.open(fileobj=cast("IO[bytes]", plain), mode="r|") as tar:
            _unpack(tar, root, below, needed)


def _needed(interpreter: str) -> Callable[[str], bool]:
    prefix, directories = _prefix(interpreter), libraries(interpreter)
    starts = tuple(f"{prefix}/{name}".lstrip("/") for name in ("bin/python3", "lib/python3", "lib64/python3"))

    def needed(path: str) -> bool:
        directory, name = posixpath.split(path)
        if path.startswith(starts):
            return not any(part in PACKAGES for part in path.split("/"))
        return directory in directories and ".so" in name

    return needed


def _unpack(tar: tarfile.TarFile, root: Path, below: Directories, needed: Callable[[str], bool]) -> None:
    """Unpack one layer above the others; what it hides goes, unless the layer itself brought it."""
    written: set[Path] = set()
    for info in tar:
        path = below.resolve(_clean(info.name))
        directory, name = posixpath.split(path)
        if name.startswith(WHITEOUT):
            _hide(root / directory / name.removeprefix(WHITEOUT) if name != OPAQUE else root / directory, written)
        elif needed(path) and _put(tar, info, root, path, below):
            written.add(root / path)


def _put(tar: tarfile.TarFile, info: tarfile.TarInfo, root: Path, path: str, below: Directories) -> bool:
    place = root / path
    data = tar.extractfile(info) if info.isreg() else None
    first = root / below.resolve(_clean(info.linkname)) if info.islnk() else None
    if not (data or info.issym() or (first and first.exists())):
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    if data:
        with place.open("wb") as file:
            shutil.copyfileobj(data, file, 1 << 20)
        place.chmod(0o755 if info.mode & 0o111 else 0o644)
        os.utime(place, (info.mtime, info.mtime))  # what bytecode knows its source by
    elif first:
        os.link(first, place)
    else:
        target = below.resolve(_clean(posixpath.join("/", posixpath.dirname(path), info.linkname)))
        place.symlink_to(os.path.relpath(root / target, place.parent))
    return True


def _hide(place: Path, kept: set[Path]) -> None:
    found = [place, *(place.rglob("*") if place.is_dir() and not place.is_symlink() else ())]
    for path in found:
        if path not in kept and (path.is_symlink() or path.is_file()):
            path.unlink()


def _clean(path: str) -> str:
    """Write a path as seen from the root, which neither `..` nor a link of the image leaves."""
    return posixpath.normpath(f"/{path}").lstrip("/")
