"""The nouns of a build, each defined once: request -> plan -> lock -> base -> layers -> image."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import StringConstraints

from images.content import Content, Value
from images.host.store import Store
from images.platforms import PLATFORMS, TWIN, Platform

# What becomes a word on a command line, a path or a line of configuration later is held to its grammar where a lock is
# read: a word that begins with a hyphen would be an option of uv.
Release = Annotated[str, StringConstraints(pattern=r"\A[0-9][0-9A-Za-z.+!-]*\z", max_length=100)]
Minor = Annotated[str, StringConstraints(pattern=r"\A[0-9]{1,2}\.[0-9]{1,2}\z")]  # tags of wheels are counted up to it
Word = Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9_.+-]*\z")]
Module = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\z")]
Address = Annotated[str, StringConstraints(pattern=r"\Ahttps://[^\s\x00-\x1f]+\z")]
Line = Annotated[str, StringConstraints(pattern=r"\A[^\x00-\x1f]*\z")]
Backend = Annotated[str, StringConstraints(pattern=r"\A(ccl|gloo)\z")]

# What Intel's index has of a oneCCL stack: the bindings, and IPEX.
BINDINGS, IPEX = "oneccl-bind-pt", "intel-extension-for-pytorch"
EXAMPLES = "examples.tar"  # what the archive of the examples is called in the store
BLOB = "blob"  # what the parts of a base image are called in the store: they have digests and no names


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None and () stand for the default, as does what `content` does not have.

    `index` are the platforms of the images that make one index together, this one among them. `user_packages` are lines
    of plan/requirements.py.
    """

    platform: Platform | None = None
    index: tuple[Platform, ...] = ()
    torch: str | None = None
    transformers: str | None = None
    python: str | None = None
    base: str | None = None
    backend: str | None = None
    tasks: tuple[str, ...] = ()
    examples: str | None = None
    tag: str | None = None
    as_of: str | None = None
    content: Mapping[str, Value] = field(default_factory=dict)
    user_packages: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A wheel, or the source archive of a project that has none; `url` is where it can be downloaded, or a path."""

    name: str
    version: str
    filename: str
    url: str
    sha256: str


@dataclass(frozen=True)
class Wheel:
    """A wheel of a lock in the store: project, version, its sha256 and where it lies."""

    project: str
    version: str
    sha256: str
    path: Path


@dataclass(frozen=True)
class SourceOnly:
    """A project without wheels: its name, its version, and the requirements that its source archive does not state."""

    name: Word
    version: Release
    requires: tuple[Line, ...]


@dataclass(frozen=True)
class Examples:
    """The archive of the examples: its file name in the store, and its sha256."""

    filename: str
    sha256: str


@dataclass(frozen=True, order=True)
class Deb:
    """A Debian package: name, version and architecture (Debian Policy 5.6), its file's name and sha256."""

    package: Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9+.-]+\z")]
    version: Annotated[str, StringConstraints(pattern=r"\A([0-9]+:)?[0-9][0-9A-Za-z.+~:-]*\z")]
    architecture: Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9-]*\z")]
    filename: str
    sha256: str


@dataclass(frozen=True)
class Debian:
    """Debian's part: the suite, the packages that were asked for, every package, and the sources.list of a base."""

    suite: Word
    packages: tuple[Word, ...]
    sources: str
    debs: tuple[Deb, ...]


@dataclass(frozen=True)
class Descriptor:
    """A blob that a manifest names: digest (`sha256:` and hexadecimal) and size in bytes."""

    media_type: str
    digest: str
    size: int

    @property
    def sha256(self) -> str:
        return self.digest.removeprefix("sha256:")


@dataclass(frozen=True)
class Manifest:
    """An image for one platform: its own digest, its configuration, its layers from the lowest."""

    digest: str
    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True)
class BaseImage:
    """A base image: its name in a registry (None: it came from disk), its manifest, and what is kept of it.

    `kept` are the planned Python packages that it has at the planned version, so that they are not added again.
    """

    manifest: Manifest
    kept: tuple[str, ...]
    reference: str | None = None


@dataclass(frozen=True)
class UserPackages:
    """The user's own packages: what was asked for (lines of plan/requirements.py), and what is there only for it."""

    requirements: tuple[Line, ...]
    names: tuple[Word, ...]


@dataclass(frozen=True, kw_only=True)
class Versions:
    """What an image is for, its releases, and the days as of which they are resolved.

    `platform` is what the image is for, `base` what to ask for again: debian, intel, a name in a registry, or a digest
    for a base from disk.
    """

    platform: Platform
    torch: Release
    transformers: Release
    python: Minor
    glibc: Minor
    backend: Backend
    module: Module | None = None
    base: Line
    as_of: datetime.date
    family_as_of: datetime.date


@dataclass(frozen=True, kw_only=True)
class Origins:
    """Where files are looked for: `index` and `find_links` are where Intel keeps its wheels."""

    source_only: tuple[SourceOnly, ...] = ()
    index: Address | None = None
    find_links: Address | None = None


@dataclass(frozen=True, kw_only=True)
class Pins(Origins, Content, Versions):
    """What a plan and its lock both say; a lock has the fields from the last of these classes to the first."""


def tag_of(pins: Pins) -> str:
    """Return what an image is called where nobody says otherwise; one for the usual platform is not named after it."""
    suffix = "" if pins.platform == PLATFORMS[0] else f"-{pins.platform.architecture}"
    return f"multinode:torch{pins.torch}-transformers{pins.transformers}{suffix}"


@dataclass(frozen=True, kw_only=True)
class Plan(Pins):
    """What will be built: requirements, the days as of which they are resolved, the base, and notes for the user.

    `base_reference` names an image to build on; without one, the base is made from `packages` of Debian's `suite`,
    which also has what a pulled base of `base_suite` lacks. `bindings` and `ipex` are the versions of a oneCCL stack;
    with `cpu_suffix`, a torch without +cpu may be for a GPU. `sources` say what the rows were taken from.
    """

    bindings: str | None
    ipex: str | None
    cpu_suffix: bool
    requirements: tuple[str, ...]
    user_packages: tuple[str, ...] = ()
    intel: tuple[str, ...]
    base_reference: str | None
    base_suite: str
    suite: str
    packages: tuple[str, ...]
    examples: str | None
    tag: str
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    sources: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Lock(Pins):
    """Everything that decides an image's bytes; equal locks make equal images.

    Without a `base_image` the base is made from Debian's packages. `undated` packages came from a place that does not
    say when: a directory, or an index without upload times. `twin` are packages of the same Python of Debian for TWIN,
    which compiles where that of the image cannot be started; they do not go in.
    """

    artifacts: tuple[Artifact, ...]
    undated: tuple[str, ...] = ()
    debian: Debian
    examples: Examples | None = None
    base_image: BaseImage | None = None
    twin: tuple[Deb, ...] | None = None
    user_packages: UserPackages | None = None

    @property
    def added(self) -> tuple[Artifact, ...]:
        """Return the Python packages that go in: all but those that the base has."""
        kept = self.base_image.kept if self.base_image else ()
        return tuple(artifact for artifact in self.artifacts if artifact.name not in kept)

    @property
    def debs(self) -> Mapping[Platform, tuple[Deb, ...]]:
        """Return all packages of Debian that are needed, by their platform."""
        return {self.platform: self.debian.debs, **({TWIN: self.twin} if self.twin else {})}

    @property
    def odd_backend(self) -> str | None:
        """Return how the backend and the packages disagree: ccl needs oneCCL's bindings, and no other has them."""
        ccl, bound = self.backend == "ccl", any(artifact.name == BINDINGS for artifact in self.artifacts)
        if ccl != bound:
            return f"backend {self.backend} with{'' if bound else 'out'} {BINDINGS}"
        return f"backend ccl without the module of {BINDINGS}" if ccl and self.module is None else None

    @property
    def tag(self) -> str:
        """Return what an image of this lock is called where nobody says otherwise."""
        return tag_of(self)

    @property
    def bindings(self) -> str | None:
        """Return the version of oneCCL's bindings, where they are in the image."""
        return next((artifact.version for artifact in self.artifacts if artifact.name == BINDINGS), None)

    def version(self, name: str) -> str:
        """Return the version of a Python package in the image, with its local part, such as 2.4.0+cpu."""
        return next(artifact.version for artifact in self.artifacts if artifact.name == name)

    def files(self) -> list[tuple[str, str]]:
        """Return every file as (sha256, file name); the parts of a base image have no names but BLOB."""
        examples = [self.examples] if self.examples else []
        debs = [deb for part in self.debs.values() for deb in part]
        named: list[Artifact | Deb | Examples] = [*self.added, *debs, *examples]
        below = self.base_image.manifest if self.base_image else None
        parts = [(part.sha256, BLOB) for part in (below.config, *below.layers)] if below else []
        return [*((file.sha256, file.filename) for file in named), *parts]


@dataclass(frozen=True)
class Written:
    """A finished layer: sha256 of the tar and of its compressed form, and both sizes in bytes."""

    diff_id: str
    digest: str
    size: int
    unpacked: int


@dataclass(frozen=True)
class Layer:
    """One layer of an image: its name, what was written, and whether it was there already.

    `packed` is how a layer of a pulled base is compressed, which it stays; all others are zstd in the store.
    """

    name: str
    written: Written
    reused: bool
    packed: str | None = None


@dataclass(frozen=True)
class Directories:
    """The directories below a layer: path -> (mode, uid, gid), and links to them, such as lib -> usr/lib."""

    owners: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def resolve(self, path: str) -> str:
        """Follow the links of the base in a path: an entry at `lib/x` would replace the link."""
        for slash in re.finditer("/", path):
            if (head := path[: slash.start()]) in self.links:
                return self.resolve(f"{self.links[head]}{path[slash.start() :]}".lstrip("/"))
        return path


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
        return self.facts.sites[self.site.python]

    def is_in(self, store: Store) -> bool:
        """Return whether a store has every layer; one that turned out to be damaged was removed."""
        return all(store.has(layer.written.digest) for layer in self.layers)


@dataclass(frozen=True)
class Image:
    """A finished image; `id` is the digest of the configuration, `digest` that of the manifest in registry form.

    `tags` are its names, such as NAME:TAG or HOST/NAME:TAG, at least one.
    """

    tags: tuple[str, ...]
    config: bytes
    manifest: bytes
    layers: tuple[Layer, ...]

    @property
    def tag(self) -> str:
        """Return the first of its names, which is the one that is shown."""
        return self.tags[0]

    @property
    def platform(self) -> Platform:
        """Return what it is for, as its configuration says."""
        said = json.loads(self.config)
        return next(each for each in PLATFORMS if (each.os, each.architecture) == (said["os"], said["architecture"]))

    @property
    def id(self) -> str:
        return f"sha256:{hashlib.sha256(self.config).hexdigest()}"

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.manifest).hexdigest()}"
