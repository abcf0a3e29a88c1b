"""What a lock says: every file of an image by sha256, and all else that decides its bytes."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from packaging.version import Version

from images.debian.packages import Deb
from images.foreign.grammar import Grammar, TrueOrFalse
from images.host.store import FileName, Sha256
from images.oci import reference
from images.oci.manifest import Manifest

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# What becomes a word on a command line, a path or a line of configuration later is held to its grammar where a lock is
# read: a word that begins with a hyphen would be an option of uv.
Release = Annotated[str, Grammar(r"\A[0-9][0-9A-Za-z.+!-]*\z", 100)]
Minor = Annotated[str, Grammar(r"\A[0-9]{1,2}\.[0-9]{1,2}\z")]  # tags of wheels are counted up to it
Word = Annotated[str, Grammar(r"\A[a-z0-9][a-z0-9_.+-]*\z")]
Module = Annotated[str, Grammar(r"\A[A-Za-z_][A-Za-z0-9_]*\z")]
Address = Annotated[str, Grammar(r"\Ahttps://[^\s\x00-\x1f]+\z")]
Line = Annotated[str, Grammar(r"\A[^\x00-\x1f]*\z")]
Backend = Annotated[str, Grammar(r"\A(ccl|gloo)\z")]
Flag = Annotated[bool, TrueOrFalse()]

# What Intel's index has of a oneCCL stack: the bindings, and IPEX.
BINDINGS, IPEX = "oneccl-bind-pt", "intel-extension-for-pytorch"
EXAMPLES = "examples.tar"  # what the archive of the examples is called in the store
BLOB = "blob"  # what the parts of a base image are called in the store: they have digests and no names


@dataclass(frozen=True)
class Examples:
    """The archive of the examples: its file name in the store, and its sha256."""

    filename: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A wheel, or the source archive of a project that has none; `url` is where it can be downloaded, or a path."""

    name: str
    version: str
    filename: str
    url: str
    sha256: str


@dataclass(frozen=True)
class SourceOnly:
    """A project without wheels: its name, its version, and the requirements that its source archive does not state."""

    name: Word
    version: Release
    requires: tuple[Line, ...]


@dataclass(frozen=True)
class Debian:
    """Debian's part: the suite, the packages that were asked for, every package, and the sources.list of a base."""

    suite: Word
    packages: tuple[Word, ...]
    sources: str
    debs: tuple[Deb, ...]


@dataclass(frozen=True)
class BaseImage:
    """A base image: its name in a registry (None: it came from disk), its manifest, and what is kept of it.

    `kept` are the planned Python packages that it has at the planned version, so that they are not added again.
    """

    manifest: Manifest
    kept: tuple[str, ...]
    reference: str | None = None


@dataclass(frozen=True, kw_only=True)
class Lock:
    """Everything that decides an image's bytes; equal locks make equal images.

    `base` is what to ask for again: debian, intel, a name in a registry, or a digest for a base from disk. Without a
    `base_image` the base is made from Debian's packages. `index` and `find_links` are where Intel keeps its wheels.
    `undated` packages came from a place that does not say when: a directory, or an index without upload times.
    """

    torch: Release
    transformers: Release
    python: Minor
    glibc: Minor
    backend: Backend
    module: Module | None = None
    base: Line
    as_of: datetime.date
    family_as_of: datetime.date
    trim: Flag
    bytecode: Flag
    artifacts: tuple[Artifact, ...]
    source_only: tuple[SourceOnly, ...] = ()
    index: Address | None = None
    find_links: Address | None = None
    undated: tuple[str, ...] = ()
    debian: Debian
    examples: Examples | None = None
    base_image: BaseImage | None = None

    @property
    def added(self) -> tuple[Artifact, ...]:
        """Return the Python packages that go in: all but those that the base has."""
        kept = self.base_image.kept if self.base_image else ()
        return tuple(artifact for artifact in self.artifacts if artifact.name not in kept)

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
        return f"multinode:torch{self.torch}-transformers{self.transformers}"

    def version(self, name: str) -> str:
        """Return the version of a Python package in the image, with its local part, such as 2.4.0+cpu."""
        return next(artifact.version for artifact in self.artifacts if artifact.name == name)

    def files(self) -> list[tuple[str, str]]:
        """Return every file as (sha256, file name); the parts of a base image have no names but BLOB."""
        examples = [self.examples] if self.examples else []
        named: list[Artifact | Deb | Examples] = [*self.added, *self.debian.debs, *examples]
        below = self.base_image.manifest if self.base_image else None
        parts = [(part.sha256, BLOB) for part in (below.config, *below.layers)] if below else []
        return [*((file.sha256, file.filename) for file in named), *parts]


def require_sense(lock: Lock) -> None:
    """Raise UserFault or ValueError for what has the right type and makes no sense: odd digests and file names."""
    for digest, name in replace(lock, base_image=None).files():
        Sha256(digest)  # refuses any other text
        FileName(name)
    parts = lock.base_image.manifest if lock.base_image else None
    digests = [parts.digest, parts.config.digest, *(layer.digest for layer in parts.layers)] if parts else []
    if odd := [digest for digest in digests if not reference.DIGEST.fullmatch(digest)]:
        raise ValueError(f"a base with the digest {odd[0]!r}")
    if (lock.base_image is None) != (lock.base == "debian"):
        raise ValueError(f"base {lock.base} with{'out' if parts is None else ''} the digests of an image")
    listed = {row.name for row in lock.source_only}
    archives = [one for one in lock.artifacts if not one.filename.endswith(".whl")]
    if unlisted := [one.filename for one in archives if one.name not in listed]:
        raise ValueError(f"{unlisted[0]}, which is no wheel, and no row of source-only for it")
    if absent := {"torch", "transformers"} - {artifact.name for artifact in lock.artifacts}:
        raise ValueError(f"no {' and no '.join(sorted(absent))} in it")
    if lock.odd_backend:
        raise ValueError(lock.odd_backend)
    for name, said in (("torch", lock.torch), ("transformers", lock.transformers)):
        if Version(lock.version(name)).public != Version(said).public:
            raise ValueError(f"{name} {said} with the file of {name} {lock.version(name)}")


@functools.cache
def adapter() -> TypeAdapter[Lock]:
    """Return what makes a lock of plain values, and refuses those that do not fit."""
    from pydantic import TypeAdapter

    return TypeAdapter(Lock)
