"""What a base image is, wherever it comes from: its layers, what is in them, and its Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from packaging.version import Version

from images.base.installed import Distribution
from images.host.errors import UserFault
from images.host.store import Store, key_of
from images.oci.layer import Directories, Layer
from images.oci.manifest import Manifest

if TYPE_CHECKING:
    from images.debian.packages import Deb

# The newest that a wheel may ask for, from each glibc of its manylinux tag on: pypa/auditwheel 6.8.2,
# policy/manylinux-policy.json.
GLIBCXX = (
    ("2.5", "3.4.8"),
    ("2.12", "3.4.13"),
    ("2.17", "3.4.19"),
    ("2.24", "3.4.22"),
    ("2.27", "3.4.24"),
    ("2.31", "3.4.28"),
    ("2.34", "3.4.29"),
    ("2.35", "3.4.30"),
    ("2.39", "3.4.33"),
)


UID, GID = 1000, 0  # of the user that an image starts with


class Recipe(Protocol):
    """What a base is made of, as a lock has it: a suite, packages that are asked for by name, and all packages."""

    @property
    def suite(self) -> str:
        """Return the name of the suite, such as bookworm."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages that are asked for by name."""

    @property
    def sources(self) -> str:
        """Return the sources.list that the base gets."""

    @property
    def debs(self) -> tuple[Deb, ...]:
        """Return every package."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a root file system has; every path is relative to the root.

    `pythons` maps 3.X to the file of an interpreter, `starts` to the path that it is started by, which in a virtual
    environment is a link, and `sites` to the directories that it imports from, first the one that packages go to;
    `ahead` are those of PYTHONPATH, which come before. `listing` maps directories that packages have files in to the
    names there. `commands` maps python3 and python to the 3.X that they start, `libraries` the names of shared
    libraries to paths, and `status` is dpkg's list of packages. `glibcxx` maps 3.X to the newest symbols of the
    libstdc++ that it loads, `marks` to the file that says that pip must not install anything.
    """

    release: Mapping[str, str]
    glibc: str | None
    musl: bool
    pythons: Mapping[str, str]
    starts: Mapping[str, str]
    sites: Mapping[str, tuple[str, ...]]
    ahead: tuple[str, ...]
    distributions: tuple[Distribution, ...]
    listing: Mapping[str, tuple[str, ...]]
    packages: Mapping[str, str]
    passwd: str
    sshd: str | None
    shell: str | None
    tini: str | None
    directories: Directories
    commands: Mapping[str, str]
    libraries: Mapping[str, str]
    status: str
    glibcxx: Mapping[str, str]
    marks: Mapping[str, str]


@dataclass(frozen=True)
class Site:
    """Where packages go: the Python (3.N), the directory that it imports from, and what scripts are started with."""

    python: str
    directory: str
    command: str


def of_debian(python: str) -> Site:
    """Return Debian's directory for what pip installs (posix_local), and what Debian's own pip writes into scripts."""
    return Site(python, f"usr/local/lib/python{python}/dist-packages", "/usr/bin/python3")


@dataclass(frozen=True, kw_only=True)
class Base:
    """A base image in the store, made here or pulled; its layers are in order from the lowest.

    `name` is what labels call it, None for an image from disk, and `manifest` is that of a pulled image,
    and `modules` the sha256 of an archive of the modules that a base made here has without bytecode. `links`
    (path -> target) are made in the highest layer. `environment` and `history` are those of the image's configuration.
    """

    name: str | None
    layers: tuple[Layer, ...]
    facts: Facts
    site: Site
    links: Mapping[str, str]
    manifest: Manifest | None = None
    modules: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()

    @property
    def digest(self) -> str | None:
        """Return the digest of a pulled image; a base that was made here has none."""
        return self.manifest.digest if self.manifest else None

    @property
    def interpreter(self) -> str:
        """Return the file of its Python, relative to the root."""
        return self.facts.pythons[self.site.python]

    @property
    def sites(self) -> tuple[str, ...]:
        """Return the directories that its Python imports packages from, in its order."""
        return (*self.facts.ahead, *self.facts.sites[self.site.python])

    @property
    def identity(self) -> str:
        """Return what bytecode depends on: the layers, and which Python of them."""
        return key_of([[layer.written.diff_id for layer in self.layers], self.interpreter, self.site.directory])

    def is_in(self, store: Store) -> bool:
        """Return whether a store has every layer; one that turned out to be damaged was removed."""
        return all(store.has(layer.written.digest) for layer in self.layers)


def refuse(facts: Facts, name: str, python: str, glibc: str) -> None:
    """Refuse a base that cannot work: musl, glibc or libstdc++ too old for wheels of `glibc`, no Python `python` (3.X).

    Raises UserFault that names every reason at once.
    """
    if reasons := list(_reasons(facts, python, glibc)):
        remedy = f"a base with glibc {glibc} or newer and Python {python}, or --base debian"
        raise UserFault("that base cannot work", f"{name}: {'; '.join(reasons)}", remedy)


def _reasons(known: Facts, python: str, glibc: str) -> Iterable[str]:
    if known.musl:
        yield "its C library is musl, and wheels of torch need glibc"
    elif known.glibc is None:
        yield "it has no glibc that could be found"
    elif Version(known.glibc) < Version(glibc):
        yield f"its glibc is {known.glibc}, {glibc} is needed"
    symbols = _glibcxx(glibc)
    if Version(known.glibcxx.get(python, symbols)) < Version(symbols):
        yield f"its libstdc++ has GLIBCXX_{known.glibcxx[python]}, wheels ask for GLIBCXX_{symbols}"
    if known.shell is None:
        yield "it has no shell (/bin/sh), by which mpirun and ssh start ranks"
    if python not in known.pythons:
        yield f"it has no Python {python} (it has {', '.join(sorted(known.pythons)) or 'none'})"
    elif known.commands.get("python3", python) != python:
        yield f"its python3 is {known.commands['python3'] or 'another program'}, not {python}"
    if closed := _closed(known, python):
        yield f"its Python is in {closed}, which uid {UID} may not enter"


def _closed(known: Facts, python: str) -> str | None:
    """Return the first directory on the way to a Python, or to its packages, that our user may not enter."""
    paths = [known.pythons.get(python, ""), *known.sites.get(python, ())[:1]]
    above = {str(directory) for path in paths for directory in PurePosixPath(path).parents}
    return next(
        (f"/{path}" for path in sorted(above & known.directories.owners.keys()) if not _enters(known, path)), None
    )


def _enters(known: Facts, path: str) -> bool:
    mode, uid, gid = known.directories.owners[path]
    return bool(mode & (0o100 if uid == UID else 0o010 if gid == GID else 0o001))


def _glibcxx(glibc: str) -> str:
    """Return the newest symbol version that wheels for a glibc may ask for."""
    fitting = (symbols for since, symbols in GLIBCXX if Version(since) <= Version(glibc))
    return max(fitting, key=Version, default=GLIBCXX[0][1])
