"""versions.toml -> frozen values; every fault in it is reported at once."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from images.host.errors import UserFault
from images.plan import schema

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
class Base:
    """A root file system: suite, its Python and glibc, and the packages that are put into it."""

    suite: str
    python: str
    glibc: str
    packages: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SourceOnly:
    """A plain-Python project without a wheel: what its metadata should have said."""

    name: str
    version: str
    requires: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Everything that versions.toml says."""

    default_torch: Version
    default_transformers: Version
    tested_torch: tuple[Version, ...]
    tested_transformers: tuple[Version, ...]
    ccl_accelerate: str
    torch: Mapping[Version, Torch]
    transformers: Mapping[Version, Transformers]
    debian: Base
    intel: Base
    intel_repository: str
    reference_glibc: str
    tasks: Mapping[str, tuple[str, ...]]
    source_only: tuple[SourceOnly, ...]


def load(path: Path = TABLE) -> Catalog:
    """Read and check the table.

    Raises UserFault with every fault of the table in one message.
    """
    raw = read(path)
    bases = raw["base"]
    intel = dict(bases["intel"])
    repository = intel.pop("repository")
    return Catalog(
        default_torch=Version(raw["default"]["torch"]),
        default_transformers=Version(raw["default"]["transformers"]),
        tested_torch=tuple(map(Version, raw["tested"]["torch"])),
        tested_transformers=tuple(map(Version, raw["tested"]["transformers"])),
        ccl_accelerate=raw["ccl"]["accelerate"],
        torch={row.version: row for line in raw["torch"] for row in _torch(line)},
        transformers={row.version: row for era in raw["transformers"] for row in _transformers(era)},
        debian=_tuples(Base, bases["debian"]),
        intel=_tuples(Base, intel),
        intel_repository=repository,
        reference_glibc=bases["reference"]["glibc"],
        tasks={name: tuple(requires) for name, requires in raw["tasks"].items()},
        source_only=tuple(_tuples(SourceOnly, row) for row in raw["source-only"]),
    )


def read(path: Path) -> dict[str, Any]:
    """Read the table as it stands in the file, once it is found to be sound."""
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise UserFault("the version table is not TOML", f"{path}: {error}", "mend that line") from error
    faults = schema.faults(raw)
    if faults:
        raise UserFault("the version table has faults", "; ".join(faults), f"mend them in {path}")
    return raw


def _tuples(kind: Any, row: Mapping[str, Any]) -> Any:
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})


def _torch(line: Mapping[str, Any]) -> Iterable[Torch]:
    for text, row in line["releases"].items():
        yield Torch(
            version=Version(text),
            released=row["released"],
            python=tuple(line["python"]),
            backend=line["backend"],
            bindings=_version(row.get("bindings")),
            ipex=_version(row.get("ipex")),
            module=line.get("module"),
            ccl_python=tuple(line.get("ccl_python", ())),
            index=line.get("index"),
            find_links=line.get("find_links"),
            intel=(f"impi-rt=={row['impi']}", f"intel-openmp=={row['openmp']}"),
            image=row.get("image"),
            numpy=line.get("numpy"),
            glibc=line.get("glibc"),
            notes=tuple(line.get("notes", ())),
            source=line["source"],
        )


def _version(text: str | None) -> Version | None:
    return Version(text) if text else None


def _transformers(era: Mapping[str, Any]) -> Iterable[Transformers]:
    good = {text: (day, None) for text, day in era["released"].items()}
    yanked = {text: (row["released"], row["reason"]) for text, row in era["yanked"].items()}
    same = {key: era[key] for key in ("era", "python", "torch", "accelerate", "libraries", "ccl", "source")}
    same |= {key: tuple(era[key]) for key in ("requires", "flags")}
    for text, (day, reason) in {**good, **yanked}.items():
        yield Transformers(version=Version(text), released=day, yanked=reason, **same)
