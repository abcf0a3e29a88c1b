"""Layers or packages unpacked on the builder's disk: what the base's Python needs to compile outside an image."""

from __future__ import annotations

import io
import os
import posixpath
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO

from images.base.inspect import of_debian
from images.base.overlay import Node, Tree
from images.debian import deb as packages
from images.debian.packages import of_python
from images.debian.tree import MERGED
from images.foreign import tars
from images.host.errors import WorldFault
from images.host.store import Store, key_of
from images.model import Base, Deb, Site
from images.oci import compression
from images.platforms import Platform

PACKAGES = ("site-packages", "dist-packages", "__pycache__")  # of no use to an interpreter that only compiles


@dataclass(frozen=True)
class PythonSource:
    """Where a Python comes from, and what bytecode of it depends on (`identity`).

    `path` is its own in the image, `site` where packages go; `layers` are what it is unpacked from, opened one by one.
    """

    platform: Platform
    path: str
    site: Site
    identity: str
    layers: Callable[[], Iterator[tarfile.TarFile]]

    @property
    def libraries(self) -> list[str]:
        """Return the directories that it may have its libraries in."""
        prefix = posixpath.dirname(posixpath.dirname(self.path))
        return list(dict.fromkeys((*self.platform.libraries, f"{prefix}/lib".lstrip("/"))))


def of_base(store: Store, base: Base, platform: Platform) -> PythonSource:
    """Return the Python that lies in the layers of a base for a platform."""

    def layers() -> Iterator[tarfile.TarFile]:
        for layer in base.layers:
            with compression.opened_tar(store.whole(layer.written.digest)) as (tar, _):
                yield tar

    return PythonSource(platform, base.interpreter, base.site, base.identity, layers)


def of_packages(store: Store, debs: Sequence[Deb], platform: Platform, python: str) -> PythonSource:
    """Return Debian's own Python (3.X), out of its packages: it is the same in the base that is made of them.

    Raises WorldFault when one is missing.
    """
    names = of_python(python)
    found = {deb.package: deb for deb in debs if deb.package in names}
    if lacking := [name for name in names if name not in found]:
        raise WorldFault("packages of Debian's Python are missing", ", ".join(lacking), "make a new lock")

    def layers() -> Iterator[tarfile.TarFile]:
        for deb in found.values():
            package = packages.load(store.place(deb.sha256, deb.filename))
            for _ in packages.entries(package):  # refuses what no image can have
                pass
            with tars.open_seekable(io.BytesIO(package.data)) as tar:
                yield tar

    identity = key_of([sorted(deb.sha256 for deb in found.values()), python])
    return PythonSource(platform, f"usr/bin/python{python}", of_debian(python), identity, layers)


def unpack(store: Store, source: PythonSource) -> Path:
    """Unpack an interpreter once and return its root directory; any user may, because owners are not kept."""
    root = store.tree([source.identity, source.path])
    if not root.is_dir():
        with store.temporary(directory=True) as aside:
            _fill(aside, source)
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


def command(root: Path, source: PythonSource) -> list[str]:
    """Say how one is started without root and without entering its root file system: through its own loader."""
    there = [place for directory in source.libraries if (place := root / directory).is_dir()]
    name = posixpath.basename(source.platform.loader)
    loaders = [str(place / name) for place in there if (place / name).is_file()]
    return [*loaders[:1], "--library-path", ":".join(map(str, there)), str(root / source.path)]


def _fill(place: Path, source: PythonSource) -> None:
    """Write what layers have of an interpreter below `root`, and what may be of it, by numbers, beside that.

    Which files are seen is known at the end; nothing is ever written by a path that a layer chose.
    """
    tree, kept, names = Tree(), place / "kept", map(str, count())
    libraries = source.libraries
    tree.root.children["usr"] = Node("d", children={name: Node("d") for name in MERGED})
    tree.root.children |= {name: Node("l", target=f"usr/{name}") for name in MERGED}
    kept.mkdir()

    def keep(path: str, content: IO[bytes]) -> str | None:
        if not _is_needed(path, libraries):
            return None
        name = next(names)
        with (kept / name).open("xb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
        return name

    for tar in source.layers():
        tree.add(tar, keep)
    (place / "root").mkdir()
    for path, node in tree.walk():
        if _is_needed(path, libraries):
            _put(tree, path, node, place / "root", kept)


def _put(tree: Tree, path: str, node: Node, root: Path, kept: Path) -> None:
    """Write a file or a link of a tree; every directory above it is a real one there, and so it is here."""
    place, target = root / path, tree.find(path)
    if not (node.text or node.kind == "l") or target is None:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if node.kind == "l":
        place.symlink_to(os.path.relpath(target[0] or ".", posixpath.dirname(path)))
    else:
        shutil.copyfile(kept / str(node.text), place)
        place.chmod(0o755 if node.mode & 0o111 else 0o644)


def _is_needed(path: str, libraries: Sequence[str]) -> bool:
    """Return whether a file may be of an interpreter, by the names in its path: links may lead to it by another."""
    directory, name = posixpath.split(path)
    is_library = ".so" in name and directory in libraries
    return (is_library or "python3" in path) and not any(part in PACKAGES for part in path.split("/"))
