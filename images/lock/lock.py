"""Everything that decides an image's bytes: every file by its sha256."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from images.base.base import BaseImage
from images.debian.deb import Deb, Debian
from images.foreign.paths import Line, Word
from images.plan.plan import Pins, tag_of
from images.plan.user_files import USER_FILE, UserFile
from images.platforms import TWIN, Platform
from images.store.blobs import BLOB

# What Intel's index has of a oneCCL stack: the bindings, and IPEX.
BINDINGS, IPEX = "oneccl-bind-pt", "intel-extension-for-pytorch"
EXAMPLES = "examples.tar"  # what the archive of the examples is called in the store


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A wheel, or the source archive of a project that has none; `url` is where it can be downloaded, or a path."""

    name: str
    version: str
    filename: str
    url: str
    sha256: str


@dataclass(frozen=True)
class Examples:
    """The archive of the examples: its file name in the store, and its sha256."""

    filename: str
    sha256: str


@dataclass(frozen=True)
class UserPackages:
    """The user's own packages: what was asked for (lines of plan/requirements.py), and what is there only for it."""

    requirements: tuple[Line, ...]
    names: tuple[Word, ...]


@dataclass(frozen=True, kw_only=True)
class Lock(Pins):
    """Everything that decides an image's bytes; equal locks make equal images.

    Without a `base_image` the base is made from Debian's packages. `undated` packages came from a place that does not
    say when: a directory, or an index without upload times. `indexes` are the indexes and pages of links that were
    asked, without logins, but for those of the machine itself. `twin` are packages of the same Python of Debian for
    TWIN, which compiles where that of the image cannot be started; they do not go in.
    """

    artifacts: tuple[Artifact, ...]
    undated: tuple[str, ...] = ()
    indexes: tuple[Line, ...] = ()
    debian: Debian
    examples: Examples | None = None
    base_image: BaseImage | None = None
    twin: tuple[Deb, ...] | None = None
    user_packages: UserPackages | None = None
    user_files: tuple[UserFile, ...] | None = None

    @property
    def is_on_pulled(self) -> bool:
        """Return whether the base is an image of others; else it is made here."""
        return self.base_image is not None

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
        return tag_of(self, self.user_files or ())

    def version(self, name: str) -> str:
        """Return the version of a Python package in the image, with its local part, such as 2.4.0+cpu."""
        return next(artifact.version for artifact in self.artifacts if artifact.name == name)

    def files(self) -> list[tuple[str, str]]:
        """Return every file as (sha256, file name), which for parts of a base is BLOB, for the user's own USER_FILE."""
        examples = [self.examples] if self.examples else []
        debs = [deb for part in self.debs.values() for deb in part]
        named: list[Artifact | Deb | Examples] = [*self.added, *debs, *examples]
        below = self.base_image.manifest if self.base_image else None
        parts = [(part.sha256, BLOB) for part in (below.config, *below.layers)] if below else []
        of_users = [(one.sha256, USER_FILE) for one in self.user_files or () if one.sha256 is not None]
        return [*((file.sha256, file.filename) for file in named), *parts, *of_users]
