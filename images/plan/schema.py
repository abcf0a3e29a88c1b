"""What versions.toml holds, section by section, as typed models."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, ConfigDict, Field, Strict, TypeAdapter
from pydantic.dataclasses import dataclass


def _parsed(parse: Callable[[str], object], name: str) -> AfterValidator:
    def check(text: str) -> str:
        try:
            parse(text)
        except ValueError as error:
            raise ValueError(f"is not {name}") from error
        return text

    return AfterValidator(check)


VersionText = Annotated[str, _parsed(Version, "a version")]
Range = Annotated[str, _parsed(SpecifierSet, "a version range")]
RequirementText = Annotated[str, _parsed(Requirement, "a requirement")]
Date = Annotated[datetime.date, Strict()]
Switch = Annotated[bool, Strict()]

_CONFIG = ConfigDict(extra="forbid")


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Release:
    """One release of a line of torch; a ccl line's names its bindings and IPEX."""

    released: Date
    impi: VersionText
    openmp: VersionText
    bindings: VersionText | None = None
    ipex: VersionText | None = None
    image: str | None = None


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Line:
    """A line of torch (2.4): what its releases have in common."""

    line: VersionText
    python: tuple[VersionText, ...]
    backend: Literal["ccl", "gloo"]
    source: str
    releases: Mapping[VersionText, Release]
    module: str | None = None
    ccl_python: tuple[VersionText, ...] = ()
    index: str | None = None
    find_links: str | None = None
    cpu_suffix: Switch = False
    numpy: Range | None = None
    glibc: VersionText | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Yanked:
    """A release that was withdrawn from its index, and why."""

    released: Date
    reason: str


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Era:
    """A range of transformers releases that require the same."""

    era: str
    source: str
    python: Range
    torch: Range
    accelerate: Range
    requires: tuple[RequirementText, ...]
    libraries: Date
    ccl: Switch
    flags: tuple[str, ...]
    released: Mapping[VersionText, Date]
    yanked: Mapping[VersionText, Yanked]


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Base:
    """A root file system: suite, its Python and glibc, and the packages that are put into it."""

    suite: str
    python: VersionText
    glibc: VersionText
    packages: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class IntelBase(Base):
    """Intel's images, and the repository that holds them."""

    repository: str


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Reference:
    """What is assumed of an image that the user names."""

    glibc: VersionText


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Bases:
    """Everything an image can be built on."""

    debian: Base
    intel: IntelBase
    reference: Reference


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class SourceOnly:
    """A plain-Python project without a wheel: what its metadata should have said."""

    name: str
    version: VersionText
    requires: tuple[RequirementText, ...]


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Undeclared:
    """What some releases of a package import at their own import, and their metadata does not require."""

    name: str
    releases: tuple[VersionText, ...] = Field(min_length=1)
    requires: tuple[RequirementText, ...]
    source: str

    @property
    def pins(self) -> frozenset[str]:
        """Return the requirements that ask for one of these releases."""
        return frozenset(f"{self.name}=={release}" for release in self.releases)


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Default:
    """The pair that is built when no version is given."""

    torch: VersionText
    transformers: VersionText


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Tested:
    """The releases that the tests train."""

    torch: tuple[VersionText, ...]
    transformers: tuple[VersionText, ...]


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Ccl:
    """What a ccl stack requires beside its bindings."""

    accelerate: Range


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Table:
    """The whole of versions.toml."""

    default: Default
    tested: Tested
    ccl: Ccl
    base: Bases
    torch: tuple[Line, ...] = Field(min_length=1)
    transformers: tuple[Era, ...] = Field(min_length=1)
    source_only: tuple[SourceOnly, ...] = Field(alias="source-only")
    undeclared: tuple[Undeclared, ...]
    tasks: Mapping[str, tuple[RequirementText, ...]] = Field(min_length=1)


def parse(raw: Mapping[str, Any]) -> Table:
    """Return the table as typed models.

    Raises pydantic.ValidationError with everything that is wrong inside the sections; faults.py puts it into words.
    """
    return TypeAdapter(Table).validate_python(raw)
