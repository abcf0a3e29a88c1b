"""What an image is built on: a base in the store, what its root has, and what a lock says of a pulled one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from images.oci.layer import Directories, Layer
from images.oci.manifest import Manifest
from images.store.blobs import Blobs


@dataclass(frozen=True)
class Distribution:
    """An installed Python package: its name in normal form, the directory it is in, its .dist-info.

    `files` are the paths of its RECORD that are there, relative to the root; None where it has no list of files.
    """

    name: str
    version: str
    directory: str
    info: str
    files: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a root file system has; every path is relative to the root.

    `pythons` maps 3.X to the file of an interpreter, `sites` to the directories that it imports from, first the one
    that packages go to, and `marks` to the file that says that pip must not install anything. `listing` maps
    directories that packages have files in to the names there. `commands` maps python3 and python to the 3.X that they
    start, `libraries` the names of shared libraries to paths, and `status` is dpkg's list of packages. `multiarch` is
    how Debian names the directory for libraries of its machine.
    """

    release: Mapping[str, str]
    glibc: str | None
    pythons: Mapping[str, str]
    sites: Mapping[str, tuple[str, ...]]
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
    marks: Mapping[str, str]
    multiarch: str


@dataclass(frozen=True)
class Site:
    """Where packages go: the Python (3.N), the directory that it imports from, and what scripts are started with."""

    python: str
    directory: str
    command: str


@dataclass(frozen=True)
class BaseImage:
    """A base image: its name in a registry (None: it came from disk), its manifest, and what is kept of it.

    `kept` are the planned Python packages that it has at the planned version, so that they are not added again.
    """

    manifest: Manifest
    kept: tuple[str, ...]
    reference: str | None = None


@dataclass(frozen=True, kw_only=True)
class Base:
    """A base image in the store, made here or pulled; its layers are in order from the lowest.

    `name` is the name in labels, None for an image from disk; `manifest` is that of a pulled image; `modules` is the
    sha256 of an archive of modules without bytecode, of a base that was built here. `links` (path -> target) go into
    the highest layer. `environment` and `history` are those of the image's configuration.
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
    def is_pulled(self) -> bool:
        """Return whether it is an image of others, and not made here."""
        return self.manifest is not None

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
        return self.facts.sites[self.site.python]

    def is_in(self, store: Blobs) -> bool:
        """Return whether a store has every layer; one that turned out to be damaged was removed."""
        return all(store.has(layer.written.digest) for layer in self.layers)
