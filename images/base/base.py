"""What an image stands on, of whatever origin: the only thing that the layers above need to know of a base."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from images.base import additions
from images.base.debian import Debian
from images.base.inspect import Facts
from images.base.pulled import Foreign
from images.host.errors import UserFault
from images.host.store import key_of
from images.oci.layer import Ground, Part

# The newest that a wheel may ask for, from each glibc of its manylinux tag on: pypa/auditwheel 6.8.2,
# policy/manylinux-policy.json, x86_64.
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


@dataclass(frozen=True)
class Site:
    """Where packages go: the Python (3.N), the folder that it imports from, and what scripts are started with."""

    python: str
    folder: str
    command: str


def of_debian(python: str) -> Site:
    """Name Debian's folder for what pip installs (posix_local), and what Debian's own pip writes into scripts."""
    return Site(python, f"usr/local/lib/python{python}/dist-packages", "/usr/bin/python3")


@dataclass(frozen=True, kw_only=True)
class Floor:
    """A base: its layers from the lowest, what lies in them, and its Python.

    `interpreter` is a path relative to the root, `name` what labels call the base, `digest` that of its manifest.
    `links` are made in our own layer, path -> target. `environment` and `history` are those of the base's
    configuration; a base made here has none. `sites` are the folders that its Python imports packages from,
    and `libraries` the paths of its shared libraries.
    """

    layers: tuple[Part, ...]
    ground: Ground
    packages: Mapping[str, str]
    passwd: str
    interpreter: str
    site: Site
    name: str | None
    links: Mapping[str, str]
    sites: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    digest: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()

    @property
    def identity(self) -> str:
        """Name what bytecode depends on: the layers, and which Python of them."""
        if self.digest is None:
            return self.layers[0].written.diff_id
        return key_of([[part.written.diff_id for part in self.layers], self.interpreter, self.site.folder])


def on_debian(debian: Debian, suite: str, python: str, *, reused: bool) -> Floor:
    """Stand on a root file system that was made here."""
    return Floor(
        layers=(Part("debian base", debian.written, reused),),
        ground=debian.ground,
        packages=debian.packages,
        passwd=debian.passwd,
        interpreter=f"usr/bin/python{python}",
        site=of_debian(python),
        name=f"debian:{suite}",
        links=additions.GUIDE,
        sites=(of_debian(python).folder, "usr/lib/python3/dist-packages"),
        libraries=debian.libraries,
    )


def on_image(image: Foreign, name: str | None, python: str) -> Floor:
    """Stand on an image of others, whose layers stay as they are."""
    known = image.facts
    interpreter = known.pythons[python]
    layers = tuple(
        Part(f"base {number}", under.written, reused=True, packed=under.compression)
        for number, under in enumerate(image.layers, 1)
    )
    return Floor(
        layers=layers,
        ground=known.ground,
        packages=known.packages,
        passwd=known.passwd,
        interpreter=interpreter,
        site=Site(python, known.sites[python][0], f"/{posixpath.normpath(interpreter)}"),
        name=name,
        links=additions.links(known, interpreter),
        sites=known.sites[python],
        libraries=tuple(known.libraries.values()),
        digest=image.digest,
        environment=image.environment,
        history=_history(image.config, len(layers)),
    )


def _history(config: Mapping[str, Any], layers: int) -> tuple[Mapping[str, Any], ...]:
    """Take the history of a configuration if it accounts for every layer: engines refuse one that does not."""
    found = config.get("history")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    if sum(not row.get("empty_layer") for row in rows) == layers:
        return tuple(rows)
    return tuple({"created_by": f"base {number}"} for number in range(1, layers + 1))


def refuse(image: Foreign, python: str, glibc: str) -> None:
    """Refuse a base that cannot work: musl, glibc or libstdc++ too old for wheels of `glibc`, no Python `python` (3.X).

    Raises UserFault that names every reason at once.
    """
    if reasons := list(_reasons(image.facts, python, glibc)):
        remedy = f"a base with glibc {glibc} or newer and Python {python}, or --base debian"
        raise UserFault("that base cannot work", f"{image.name}: {'; '.join(reasons)}", remedy)


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


def _glibcxx(glibc: str) -> str:
    """Return the newest symbol version that wheels for a glibc may ask for."""
    fitting = (symbols for since, symbols in GLIBCXX if Version(since) <= Version(glibc))
    return max(fitting, key=Version, default=GLIBCXX[0][1])
