"""What versions.toml holds, section by section, as typed dataclasses."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from images.foreign import typed
from images.foreign.typed import Rule

Held = TypeVar("Held")


def _refuse_empty(value: object) -> None:
    if not value:
        raise ValueError


VersionText = Annotated[str, Rule(Version, "is not a version")]
Range = Annotated[str, Rule(SpecifierSet, "is not a version range")]
RequirementText = Annotated[str, Rule(Requirement, "is not a requirement")]
Some = Annotated[Held, Rule(_refuse_empty, "is empty")]


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release of a line of torch; a ccl line's names its bindings and IPEX."""

    released: datetime.date
    impi: VersionText
    openmp: VersionText
    bindings: VersionText | None = None
    ipex: VersionText | None = None
    image: str | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of torch (2.4): what its releases have in common."""

    line: VersionText
    python: Some[tuple[VersionText, ...]]
    backend: Literal["ccl", "gloo"]
    source: str
    releases: Some[Mapping[VersionText, Release]]
    module: str | None = None
    ccl_python: tuple[VersionText, ...] = ()
    index: str | None = None
    find_links: str | None = None
    cpu_suffix: bool = False
    numpy: Range | None = None
    glibc: VersionText | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Yanked:
    """A release that was withdrawn from its index, and why."""

    released: datetime.date
    reason: str


@dataclass(frozen=True, kw_only=True)
class Era:
    """A range of transformers releases that require the same."""

    era: str
    source: str
    python: Range
    torch: Range
    accelerate: Range
    requires: tuple[RequirementText, ...]
    libraries: datetime.date
    ccl: bool
    flags: tuple[str, ...]
    released: Mapping[VersionText, datetime.date]
    yanked: Mapping[VersionText, Yanked]


@dataclass(frozen=True, kw_only=True)
class Base:
    """A root file system: suite, its Python and glibc, and the packages that are put into it."""

    suite: str
    python: VersionText
    glibc: VersionText
    packages: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class IntelBase(Base):
    """Intel's images, and the repository that holds them."""

    repository: str


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What is assumed of an image that the user names."""

    glibc: VersionText


@dataclass(frozen=True, kw_only=True)
class Bases:
    """Everything an image can be built on."""

    debian: Base
    intel: IntelBase
    reference: Reference


@dataclass(frozen=True, kw_only=True)
class SourceOnly:
    """A plain-Python project without a wheel: what its metadata should have said."""

    name: str
    version: VersionText
    requires: tuple[RequirementText, ...]


@dataclass(frozen=True, kw_only=True)
class Undeclared:
    """What some releases of a package import at their own import, and their metadata does not require."""

    name: str
    releases: Some[tuple[VersionText, ...]]
    requires: tuple[RequirementText, ...]
    source: str

    @property
    def pins(self) -> frozenset[str]:
        """Return the requirements that ask for one of these releases."""
        return frozenset(f"{self.name}=={release}" for release in self.releases)


@dataclass(frozen=True, kw_only=True)
class Default:
    """The pair that is built when no version is given."""

    torch: VersionText
    transformers: VersionText


@dataclass(frozen=True, kw_only=True)
class Tested:
    """The releases that the tests train."""

    torch: tuple[VersionText, ...]
    transformers: tuple[VersionText, ...]


@dataclass(frozen=True, kw_only=True)
class Ccl:
    """What a ccl stack requires beside its bindings."""

    accelerate: Range


@dataclass(frozen=True, kw_only=True)
class Table:
    """The whole of versions.toml."""

    default: Default
    tested: Tested
    ccl: Ccl
    base: Bases
    torch: Some[tuple[Line, ...]]
    transformers: Some[tuple[Era, ...]]
    source_only: tuple[SourceOnly, ...] = field(metadata={"key": "source-only"})
    undeclared: tuple[Undeclared, ...]
    tasks: Some[Mapping[str, tuple[RequirementText, ...]]]


def parse(raw: Mapping[str, Any]) -> Table:
    """Return the table as typed dataclasses.

    Raises typed.Mistakes with everything that is wrong inside the sections; mistakes.py puts it into words.
    """
    return typed.read(Table, raw)
