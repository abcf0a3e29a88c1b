"""Debian's Python, unpacked on the builder's disk: what it needs to compile outside of an image."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from images.debian.deb import Deb, load_package
from images.debian.packages import python_packages
from images.dpkg.tree import FILE, LINK, PackageTree
from images.host.errors import WorldFault
from images.platforms import Platform
from images.store.store import Store, key_of

PACKAGES = ("site-packages", "dist-packages", "__pycache__")  # of no use to an interpreter that only compiles


@dataclass(frozen=True)
class Packaged:
    """Debian's Python of a release (3.X): the packages that it is in, and what bytecode of it depends on."""

    platform: Platform
    release: str
    debs: tuple[Path, ...]
    identity: str

    @property
    def path(self) -> str:
        """Return its place, relative to the root."""
        return f"usr/bin/python{self.release}"


def choose_interpreter(store: Store, debs: Sequence[Deb], platform: Platform, release: str) -> Packaged:
    """Return the Python in some packages: it is the same in the base that is made of them.

    Raises WorldFault when one is missing.
    """
    names = python_packages(release)
    packages = {deb.package: deb for deb in sorted(debs) if deb.package in names}
    if lacking := [name for name in names if name not in packages]:
        raise WorldFault("packages of Debian's Python are missing", ", ".join(lacking), "make a new lock")
    identity = key_of([str(platform), release, [(deb.package, deb.sha256) for deb in packages.values()]])
    return Packaged(
        platform, release, tuple(store.place(deb.sha256, deb.filename) for deb in packages.values()), identity
    )


def unpack(store: Store, source: Packaged) -> Path:
    """Unpack an interpreter once and return its root directory; any user may, because owners are not kept.

    Raises WorldFault for packages that do not go together.
    """
    root = store.tree([source.identity, source.path])
    if not root.is_dir():
        with store.temporary(directory=True) as aside:
            _fill(aside / "root", source)
            root.parent.mkdir(exist_ok=True)
            try:
                (aside / "root").rename(root)
            except OSError:
                if not root.is_dir():  # another build may have been first
                    raise
    return root


def remove(store: Store, root: Path) -> None:
    """Remove an interpreter that fails, as one does of which a power cut left empty files: it is unpacked anew then."""
    with store.temporary(directory=True) as aside, suppress(FileNotFoundError):  # another build may have been first
        root.rename(aside / "damaged")


def interpreter_command(root: Path, source: Packaged) -> list[str]:
    """Say how one is started in its root directory, without root and without entering it: through its own loader.

    The loader takes libraries from places relative to it: its list of them has no way to write a colon of a path.
    """
    there = [place for place in source.platform.libraries if (root / place).is_dir()]
    name = posixpath.basename(source.platform.loader)
    loaders = [str(root / place / name) for place in there if (root / place / name).is_file()]
    return [*loaders[:1], "--library-path", ":".join(there), str(root / source.path)]


def _fill(root: Path, source: Packaged) -> None:
    """Write what packages have of an interpreter; all directories above a file are real ones in a complete tree."""
    tree = PackageTree()
    for deb in source.debs:
        tree.unpack(load_package(deb))
    tree.complete()
    for path, entry in tree.entries.items():
        if entry.kind not in (FILE, LINK) or not _is_needed(path, source.platform):
            continue
        place, target = root / path, tree.real(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == FILE:
            place.write_bytes(entry.data)
            place.chmod(0o755 if entry.mode & 0o111 else 0o644)
        elif target in tree.entries:
            place.symlink_to(os.path.relpath(target, posixpath.dirname(path)))


def _is_needed(path: str, platform: Platform) -> bool:
    """Return whether a file may be of an interpreter, by the names in its path."""
    directory, name = posixpath.split(path)
    is_library = ".so" in name and directory in platform.libraries
    return (is_library or "python3" in path) and not any(part in PACKAGES for part in path.split("/"))
