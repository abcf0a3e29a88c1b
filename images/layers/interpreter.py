"""Layers or packages unpacked on the builder's disk: what the base's Python needs to run outside an image."""

from __future__ import annotations

import io
import os
import posixpath
import shutil
import tarfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from images.base.base import of_debian
from images.base.inspect import LIBRARIES
from images.debian import deb as packages
from images.foreign import tars
from images.foreign.paths import OPAQUE, WHITEOUT
from images.foreign.tars import below_root
from images.host.errors import Damaged, WorldFault
from images.host.store import Store, key_of
from images.model import Base, Deb, Directories, Layer, Site
from images.oci import compression
from images.oci.manifest import DAMAGED

PACKAGES = ("site-packages", "dist-packages")  # of no use to an interpreter that only compiles

# What Debian's Python needs to compile, and what the modules that it imports for that try to import.
PACKAGED = (
    "python{0}-minimal", "libpython{0}-minimal", "libpython{0}-stdlib", "libc6", "libexpat1", "zlib1g", "libbz2-1.0",
    "liblzma5",
)  # fmt: skip
WHOLE = "trees"  # records of the files in each
MERGED = Directories({}, {name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")})


@dataclass(frozen=True)
class PythonSource:
    """Where a Python comes from, and what bytecode of it depends on (`identity`).

    `name` is what messages call it, `path` its own in the image, `site` where packages go. `fill` unpacks it into a
    directory; one that is `packaged` comes without bytecode of its own modules.
    """

    name: str | None
    path: str
    site: Site
    identity: str
    fill: Callable[[Path], None]
    packaged: bool = False


def of_base(store: Store, base: Base) -> PythonSource:
    """Return the Python that lies in the layers of a base."""

    def fill(root: Path) -> None:
        _extract(store, base.layers, base.facts.directories, root, _needed(base.interpreter))

    return PythonSource(base.name, base.interpreter, base.site, base.identity, fill)


def of_packages(store: Store, suite: str, debs: Sequence[Deb], python: str) -> PythonSource:
    """Return Debian's own Python (3.X), out of its packages: it is the same in the base that is made of them.

    Raises WorldFault when one is missing.
    """
    path, names = f"usr/bin/python{python}", [name.format(python) for name in PACKAGED]
    needed, found = _needed(path), {deb.package: deb for deb in debs if deb.package in names}
    if lacking := [name for name in names if name not in found]:
        raise WorldFault("packages of Debian's Python are missing", ", ".join(lacking), "make a new lock")

    def fill(root: Path) -> None:
        root.mkdir()
        for deb in found.values():
            package = packages.load(store.place(deb.sha256, deb.filename))
            list(packages.entries(package))  # refuses what no image can have
            with tars.open_seekable(io.BytesIO(package.data)) as tar:
                _unpack(tar, root, MERGED, needed)

    identity = key_of([sorted(deb.sha256 for deb in found.values()), python])
    return PythonSource(f"debian:{suite}", path, of_debian(python), identity, fill, packaged=True)


def unpack(store: Store, source: PythonSource, ready: Callable[[Path], None] = lambda _: None) -> Path:
    """Unpack an interpreter once and return its root directory; any user may, because owners are not kept.

    `ready` is called with the directory that the interpreter is in before it is moved to its place.
    """
    root = store.tree([source.identity, source.path])
    if root.is_dir() and store.record(WHOLE, root.name) != _sizes(root):
        _remove(store, root)
    if not root.is_dir():
        with store.aside(directory=True) as aside:
            source.fill(aside / "root")
            ready(aside / "root")
            root.parent.mkdir(exist_ok=True)
            store.write_record(WHOLE, root.name, _sizes(aside / "root"))  # before any other build sees the directory
            try:
                (aside / "root").rename(root)
            except OSError:
                if not root.is_dir():  # another build may have been first
                    raise
    return root


def _sizes(root: Path) -> list[int]:
    """Return the number of files and their bytes: what a power cut leaves has empty ones, or fewer."""
    found = [os.lstat(f"{place}/{name}").st_size for place, _, names in os.walk(root) for name in names]
    return [len(found), sum(found)]


def _remove(store: Store, root: Path) -> None:
    with store.aside(directory=True) as aside, suppress(FileNotFoundError):  # another build may have been first
        root.rename(aside / "damaged")


def importable(store: Store, base: Base, above: Sequence[Layer], root: Path) -> None:
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
    store: Store, layers: Sequence[Layer], below: Directories, root: Path, needed: Callable[[str], bool]
) -> None:
    root.mkdir(exist_ok=True)
    for layer in layers:
        path = store.whole(layer.written.digest, "blob")
        if path is None:
            raise Damaged(store.place(layer.written.digest))
        with compression.opened_tar(path) as (tar, _):
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
    """Unpack one layer above the others; what it hides goes, unless the layer itself brought it.

    Raises WorldFault for a whiteout that names nothing in its directory.
    """
    written: set[Path] = set()
    for info in tars.entries(tar):
        path = below.resolve(below_root(info.name))
        directory, name = posixpath.split(path)
        if name.startswith(WHITEOUT):
            if (hidden := name.removeprefix(WHITEOUT)) in ("", ".", ".."):
                raise WorldFault("a layer hides what cannot be hidden", info.name, DAMAGED)
            _hide(root, directory if name == OPAQUE else posixpath.join(directory, hidden), written)
        elif path and needed(path) and _put(tar, info, root, path, below):
            written.add(root / path)


def _put(tar: tarfile.TarFile, info: tarfile.TarInfo, root: Path, path: str, below: Directories) -> bool:
    data = tar.extractfile(info) if info.isreg() else None
    first = below.resolve(below_root(info.linkname)) if info.islnk() else ""
    if not (data or info.issym() or (first and _reached(root, first) and (root / first).is_file())):
        return False
    if f"{first}/".startswith(f"{path}/") or (first and path.startswith(f"{first}/")):
        return False  # a link to itself, in place of a directory that it leads into, or below the file that it leads to
    place = _below(root, path)
    if data:
        with place.open("xb") as file:
            shutil.copyfileobj(data, file, 1 << 20)
        place.chmod(0o755 if info.mode & 0o111 else 0o644)
        os.utime(place, (info.mtime, info.mtime))  # what bytecode knows its source by
    elif first:
        os.link(root / first, place, follow_symlinks=False)
    else:
        target = below.resolve(below_root(posixpath.join("/", posixpath.dirname(path), info.linkname)))
        place.symlink_to(os.path.relpath(root / target, place.parent))
    return True


def _below(root: Path, path: str) -> Path:
    """Make room for a file below a root: real directories all the way, and nothing at its place.

    A link on the way, left by a lower layer, is replaced by a directory: nothing is ever written through a link.
    """
    place = root
    for name in posixpath.dirname(path).split("/"):
        place = place / name
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            place.unlink()
        place.mkdir(exist_ok=True)
    place = root / path
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    return place


def _reached(root: Path, path: str) -> bool:
    """Return whether a path is there without passing through a link; it may be a link itself."""
    place = root
    for name in path.split("/")[:-1]:
        place = place / name
        if place.is_symlink() or not place.is_dir():
            return False
    return os.path.lexists(root / path)


def _hide(root: Path, path: str, kept: set[Path]) -> None:
    if not _reached(root, path):
        return
    place = root / path
    found = [place, *(place.rglob("*") if place.is_dir() and not place.is_symlink() else ())]
    for each in found:
        if each not in kept and (each.is_symlink() or each.is_file()):
            each.unlink()
