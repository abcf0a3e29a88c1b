"""versions.toml -> frozen values; every fault in it is reported at once."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from images.errors import UserFault

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("versions.toml")


@dataclass(frozen=True, kw_only=True)
class Torch:
    """One torch release and what goes with it."""

    version: Version
    released: datetime.date
    python: tuple[str, ...]
    backend: str
    intel: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Transformers:
    """One transformers release; `requires` are the floors under which its set can be imported together."""

    version: Version
    released: datetime.date
    python: SpecifierSet
    torch: SpecifierSet
    requires: tuple[str, ...]
    yanked: str | None


@dataclass(frozen=True, kw_only=True)
class Base:
    """A Debian root file system: suite, its Python and glibc, and the packages in it."""

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
    torch: Mapping[Version, Torch]
    transformers: Mapping[Version, Transformers]
    debian: Base
    tasks: Mapping[str, tuple[str, ...]]
    source_only: tuple[SourceOnly, ...]


def load(path: Path = TABLE) -> Catalog:
    """Read and check the table.

    Raises UserFault with every fault of the table in one message.
    """
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise UserFault("the version table is not TOML", f"{path}: {error}", "mend that line") from error
    faults = list(_faults(raw))
    if faults:
        raise UserFault("the version table has faults", "; ".join(faults), f"mend them in {path}")
    torch = {row.version: row for row in map(_torch, raw["torch"])}
    return Catalog(
        default_torch=Version(raw["default"]["torch"]),
        default_transformers=Version(raw["default"]["transformers"]),
        torch=torch,
        transformers={row.version: row for era in raw["transformers"] for row in _transformers(era)},
        debian=_tuples(Base, raw["base"]["debian"]),
        tasks={name: tuple(requires) for name, requires in raw["tasks"].items()},
        source_only=tuple(_tuples(SourceOnly, row) for row in raw["source-only"]),
    )


def _tuples(kind: Any, row: Mapping[str, Any]) -> Any:
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})


def _torch(row: Mapping[str, Any]) -> Torch:
    made: Torch = _tuples(Torch, {**row, "version": Version(row["version"])})
    return made


def _transformers(era: Mapping[str, Any]) -> Iterable[Transformers]:
    good = {text: (day, None) for text, day in era["released"].items()}
    yanked = {text: (row["released"], row["reason"]) for text, row in era["yanked"].items()}
    for text, (day, reason) in {**good, **yanked}.items():
        yield Transformers(
            version=Version(text), released=day, yanked=reason, requires=tuple(era["requires"]),
            python=SpecifierSet(era["python"]), torch=SpecifierSet(era["torch"]),
        )  # fmt: skip


KEYS = {
    "torch": {"version", "released", "python", "backend", "intel"},
    "transformers": {"era", "source", "python", "torch", "requires", "released", "yanked"},
    "source-only": {"name", "version", "requires"},
}


def _faults(raw: Mapping[str, Any]) -> Iterable[str]:
    for section in ("default", "torch", "transformers", "base", "tasks", "source-only"):
        if section not in raw:
            yield f"no section {section!r}"
    for section, keys in KEYS.items():
        for number, row in enumerate(raw.get(section, []), 1):
            where = f"{section} row {number}"
            yield from (f"{where}: no key {key!r}" for key in sorted(keys - row.keys()))
            yield from (f"{where}: unknown key {key!r}" for key in sorted(row.keys() - keys))
            yield from _bad_values(where, row)


def _bad_values(where: str, row: Mapping[str, Any]) -> Iterable[str]:
    versions = [row["version"]] if "version" in row else []
    if isinstance(row.get("released"), dict):
        versions += [*row["released"], *row.get("yanked", {})]
    for text in versions:
        try:
            Version(text)
        except InvalidVersion:
            yield f"{where}: {text!r} is not a version"
    for key in ("python", "torch"):
        if isinstance(row.get(key), str):
            try:
                SpecifierSet(row[key])
            except InvalidSpecifier:
                yield f"{where}: {key} = {row[key]!r} is not a version range"
