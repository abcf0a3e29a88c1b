"""The rows of versions.toml: one for each release of torch and of transformers."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)  # fmt: skip

from images.foreign.documents import parse_toml
from images.host.errors import UserFault
from images.plan.plan import SourceOnly
from images.platforms import Platform

TABLE = Path(__file__).parents[1] / "versions.toml"


def _readable(kind: type[object]) -> AfterValidator:
    """Return what holds a text to a grammar of packages, and leaves it a text."""

    def check(text: str) -> str:
        kind(text)  # type: ignore[call-arg]  # raises ValueError
        return text

    return AfterValidator(check)


Release = Annotated[Version, BeforeValidator(Version), PlainSerializer(str)]
VersionText = Annotated[str, _readable(Version)]
Range = Annotated[str, _readable(SpecifierSet)]
RequirementText = Annotated[str, _readable(Requirement)]
Pythons = Annotated[tuple[VersionText, ...], Field(min_length=1)]


class Row(BaseModel):
    """What is in a section: with every key that it must have, and no other."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Torch(Row):
    """One torch release and what goes with it; a ccl stack has what is beside its `bindings`."""

    line: VersionText
    version: Release
    released: datetime.date
    python: Pythons
    backend: Literal["ccl", "gloo"]
    impi: VersionText | None
    openmp: VersionText | None
    source: str
    bindings: Release | None = None
    ipex: Release | None = None
    module: str | None = None
    ccl_python: tuple[VersionText, ...] = ()
    bindings_index: str | None = None
    find_links: str | None = None
    image: str | None = None
    cpu_suffix: bool = False
    numpy: Range | None = None
    glibc: VersionText | None = None
    notes: tuple[str, ...] = ()
    mpich: VersionText | None = None

    @property
    def intel(self) -> tuple[str, ...]:
        """Return the requirements of Intel's libraries."""
        both = {"impi-rt": self.impi, "intel-openmp": self.openmp}
        return tuple(f"{name}=={version}" for name, version in both.items() if version)

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the requirements of what stands beside torch: an MPI, and an OpenMP."""
        return (*self.intel, *([f"mpich=={self.mpich}"] if self.mpich else []))

    @model_validator(mode="after")
    def _has_all_of_its_stack(self) -> Torch:
        ccl = self.backend == "ccl"
        stack = (self.module, self.ccl_python, self.bindings, self.ipex, self.bindings_index or self.find_links)
        if any(bool(part) != ccl for part in stack) or (self.bindings_index and self.find_links):
            raise ValueError(
                "ccl goes with module, ccl_python, bindings, ipex, one of bindings_index and find_links; gloo with none"
            )
        if self.version.release[:2] != Version(self.line).release[:2]:
            raise ValueError(f"{self.version} does not belong to this line")
        return self


class Transformers(Row):
    """One transformers release; `requires` are the bounds under which its set imports together."""

    era: str
    version: Release
    released: datetime.date
    python: Range
    torch: Range
    accelerate: Range
    requires: tuple[RequirementText, ...]
    libraries: datetime.date
    ccl: bool
    flags: tuple[str, ...]
    source: str
    yanked: str | None = None


class BaseRow(Row):
    """A root file system: suite, its Python and glibc, and the packages that are put into it.

    `released` is its day, `security` and `lts` are the last days on which Debian's security team and its LTS team mend
    it; None where that is not known here.
    """

    suite: str
    python: str
    glibc: VersionText
    packages: tuple[str, ...]
    repository: str | None = None
    released: datetime.date | None = None
    security: datetime.date | None = None
    lts: datetime.date | None = None

    def is_mended(self, day: datetime.date) -> bool:
        """Return whether Debian's security team is known to mend it on a day."""
        return self.released is not None and self.security is not None and self.released <= day <= self.security

    def mended(self, day: datetime.date) -> str:
        """Return who mends it on a day, and until when; empty where that is not known here."""
        if self.security is None or self.lts is None:
            return ""
        if self.released and day < self.released:
            return f"nobody before {self.released}, the day of its release"
        if day > self.lts:
            return f"nobody since {self.lts}"
        if day > self.security:
            return f"LTS until {self.lts}, no more by its security team (until {self.security})"
        return f"its security team until {self.security}, then LTS until {self.lts}"


class Undeclared(Row):
    """What some releases of a package import at their own import, and their metadata does not require."""

    name: str
    releases: Annotated[tuple[VersionText, ...], Field(min_length=1)]
    requires: tuple[RequirementText, ...]
    source: str

    @property
    def pins(self) -> frozenset[str]:
        """Return the requirements that ask for one of these releases."""
        return frozenset(f"{self.name}=={release}" for release in self.releases)


OF_INTEL = ("bindings", "ipex", "module", "bindings_index", "find_links", "image", "impi", "openmp")  # fields of Torch


CPU_INDEX = "PyTorch's own index"
# Its builds for the CPU, asked only when the configured sources have none: https://pytorch.org/get-started/locally/
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"


class Machine(Row):
    """What a kind of machine has in the place of Intel's parts, and from when on PyPI's torch for it is for CUDA."""

    torch: Release
    gpu: Release
    mpich: VersionText
    lacks: str
    source: str


def _torch(lines: Iterable[dict[str, Any]]) -> dict[Version, dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for line in lines:
        common = {key: value for key, value in line.items() if key != "releases"}
        rows += [{**common, "version": text, **release} for text, release in line["releases"].items()]
    return _by_version(rows)


def _transformers(eras: Iterable[dict[str, Any]]) -> dict[Version, dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for era in eras:
        common = {key: value for key, value in era.items() if key not in ("released", "yanked")}
        rows += [{**common, "version": text, "released": day} for text, day in era["released"].items()]
        for text, row in era["yanked"].items():
            rows.append({**common, "version": text, "released": row["released"], "yanked": row["reason"]})
    return _by_version(rows)


def _by_version(rows: Iterable[dict[str, Any]]) -> dict[Version, dict[str, Any]]:
    by_version: dict[Version, dict[str, Any]] = {}
    for row in rows:
        if (version := Version(row["version"])) in by_version:
            raise ValueError(f"{version} is in the table twice")
        by_version[version] = row
    return by_version


def _at(*path: str) -> Any:
    """Return a field that is not where its name says: the section of the table, and the key in it."""
    return Field(validation_alias=AliasPath(*path))


class Catalog(Row):
    """Everything that versions.toml says, each line once for each of its releases.

    `lacks` is what there is not on a kind of machine.
    """

    default_torch: Release = _at("default", "torch")
    default_transformers: Release = _at("default", "transformers")
    tested_torch: tuple[Release, ...] = _at("tested", "torch")
    tested_transformers: tuple[Release, ...] = _at("tested", "transformers")
    ccl_accelerate: Range = _at("ccl", "accelerate")
    torch: Annotated[Mapping[Version, Torch], BeforeValidator(_torch)]
    transformers: Annotated[Mapping[Version, Transformers], BeforeValidator(_transformers)]
    suites: Annotated[tuple[BaseRow, ...], Field(min_length=1)] = _at("base", "debian")
    intel: BaseRow = _at("base", "intel")
    reference_glibc: VersionText = _at("base", "reference", "glibc")
    tasks: Mapping[str, tuple[RequirementText, ...]]
    source_only: tuple[SourceOnly, ...] = _at("source-only")
    undeclared: tuple[Undeclared, ...]
    machines: Mapping[str, Machine] = _at("machine")
    lacks: str = ""

    def on(self, platform: Platform) -> Catalog:
        """Return what there is for a platform; the rows as they are written are for the first of PLATFORMS."""
        machine = self.machines.get(platform.architecture)
        if machine is None:
            return self
        rows = {version: _on(machine, row) for version, row in self.torch.items()}
        changes = {"torch": rows, "default_torch": machine.torch, "tested_torch": (machine.torch,)}
        cuda = f"from torch {machine.gpu} on PyPI's wheels for it are for CUDA: those for the CPU are at {CPU_INDEX}"
        lacks = f"not made for {platform}: {machine.lacks}; {cuda} ({machine.source})"
        return self.model_copy(update={**changes, "lacks": lacks})

    @property
    def debian(self) -> BaseRow:
        """Return Debian's suite where nothing asks for another one."""
        return self.suites[0]

    @model_validator(mode="after")
    def _knows_what_it_names(self) -> Catalog:
        torch, transformers = {self.default_torch, *self.tested_torch}, {*self.tested_transformers}
        if unknown := [*(torch - {*self.torch}), *({self.default_transformers, *transformers} - {*self.transformers})]:
            raise ValueError(f"default or tested, and not in the table: {', '.join(map(str, unknown))}")
        return self


def _on(machine: Machine, row: Torch) -> Torch:
    """Return a release of torch as it is on a kind of machine."""
    for_gpu, notes = row.version >= machine.gpu, [f"no {machine.lacks}: they are not made for this machine"]
    if for_gpu:
        notes.append(f"PyPI's wheels of torch {row.version} for it are for CUDA: those for the CPU are at {CPU_INDEX}")
    changed: dict[str, Any] = dict.fromkeys(OF_INTEL)
    changed |= {"backend": "gloo", "mpich": machine.mpich, "cpu_suffix": for_gpu}
    return row.model_copy(update={**changed, "notes": tuple(notes), "source": machine.source})


@lru_cache(maxsize=1)
def _parse(text: str) -> Catalog:
    """Return a table; the images of an index ask for the same one, each for its plan."""
    return Catalog.model_validate(parse_toml(text))


def load(path: Path = TABLE) -> Catalog:
    """Return the table, read and checked.

    Raises UserFault with every fault of the table in one message.
    """
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        value = "; ".join(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}" for wrong in error.errors())
        raise UserFault("the version table has faults", value, f"correct them in {path}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # no TOML, or not these sections
        reason = f"no key {error}" if isinstance(error, KeyError) else error
        raise UserFault("the version table cannot be read", f"{path}: {reason}", "correct that line") from error
