"""The rows of versions.toml as the planner reads them: one for each release of torch and of transformers."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from images.foreign.typed import Mistakes
from images.host.errors import UserFault
from images.plan import mistakes, schema
from images.plan.schema import Base, IntelBase, SourceOnly, Undeclared

__all__ = ["TABLE", "Base", "Catalog", "SourceOnly", "Torch", "Transformers", "load"]

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).parents[1] / "versions.toml"


@dataclass(frozen=True, kw_only=True)
class Torch:
    """One torch release and what goes with it; the fields from `bindings` to `find_links` are a ccl stack's."""

    version: Version
    released: datetime.date
    python: tuple[str, ...]
    backend: str
    bindings: Version | None
    ipex: Version | None
    module: str | None
    ccl_python: tuple[str, ...]
    index: str | None
    find_links: str | None
    intel: tuple[str, ...]
    image: str | None
    cpu_suffix: bool
    numpy: str | None
    glibc: str | None
    notes: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class Transformers:
    """One transformers release; `requires` are the bounds under which its set imports together."""

    version: Version
    released: datetime.date
    era: str
    python: str
    torch: str
    accelerate: str
    requires: tuple[str, ...]
    libraries: datetime.date
    ccl: bool
    flags: tuple[str, ...]
    source: str
    yanked: str | None


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Everything that versions.toml says."""

    default_torch: Version
    default_transformers: Version
    tested_torch: tuple[Version, ...]
    ccl_accelerate: str
    torch: Mapping[Version, Torch]
    transformers: Mapping[Version, Transformers]
    debian: Base
    intel: IntelBase
    reference_glibc: str
    tasks: Mapping[str, tuple[str, ...]]
    source_only: tuple[SourceOnly, ...]
    undeclared: tuple[Undeclared, ...]


def load(path: Path = TABLE) -> Catalog:
    """Return the table, read and checked.

    Raises UserFault with every fault of the table in one message.
    """
    table = _read(path)
    return Catalog(
        default_torch=Version(table.default.torch),
        default_transformers=Version(table.default.transformers),
        tested_torch=tuple(map(Version, table.tested.torch)),
        ccl_accelerate=table.ccl.accelerate,
        torch={row.version: row for line in table.torch for row in _torch(line)},
        transformers={row.version: row for era in table.transformers for row in _transformers(era)},
        debian=table.base.debian,
        intel=table.base.intel,
        reference_glibc=table.base.reference.glibc,
        tasks=table.tasks,
        source_only=table.source_only,
        undeclared=table.undeclared,
    )


def _read(path: Path) -> schema.Table:
    try:
        table = schema.parse(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserFault("the version table is not TOML", f"{path}: {error}", "correct that line") from error
    except Mistakes as error:
        found = mistakes.inside_sections(error.mistakes)
    else:
        found = mistakes.between_sections(table)
    if found:
        raise UserFault("the version table has faults", "; ".join(found), f"correct them in {path}")
    return table


def _torch(line: schema.Line) -> Iterable[Torch]:
    for text, release in line.releases.items():
        yield Torch(
            version=Version(text),
            released=release.released,
            python=line.python,
            backend=line.backend,
            bindings=Version(release.bindings) if release.bindings else None,
            ipex=Version(release.ipex) if release.ipex else None,
            module=line.module,
            ccl_python=line.ccl_python,
            index=line.index,
            find_links=line.find_links,
            intel=(f"impi-rt=={release.impi}", f"intel-openmp=={release.openmp}"),
            image=release.image,
            cpu_suffix=line.cpu_suffix,
            numpy=line.numpy,
            glibc=line.glibc,
            notes=line.notes,
            source=line.source,
        )


def _transformers(era: schema.Era) -> Iterable[Transformers]:
    good = {text: (day, None) for text, day in era.released.items()}
    yanked = {text: (row.released, row.reason) for text, row in era.yanked.items()}
    for text, (day, reason) in {**good, **yanked}.items():
        yield Transformers(
            version=Version(text),
            released=day,
            era=era.era,
            python=era.python,
            torch=era.torch,
            accelerate=era.accelerate,
            requires=era.requires,
            libraries=era.libraries,
            ccl=era.ccl,
            flags=era.flags,
            source=era.source,
            yanked=reason,
        )
