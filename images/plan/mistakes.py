"""What is wrong with versions.toml, each fault as a sentence that names its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from packaging.version import Version

from images.foreign.typed import KEY, Mistake
from images.plan.schema import Line, Table

# Tables inside a row whose keys are versions: a version says where a fault is, the table's own name adds nothing.
_BY_VERSION = ("releases", "released", "yanked")


def inside_sections(found: Iterable[Mistake]) -> list[str]:
    """Return the faults of single values and keys: `torch row 18, 2.13.0: no key 'impi'`."""
    return [_sentence(*fault) for fault in found]


def _sentence(path: Sequence[int | str], value: Any, said: str) -> str:
    where, inner = _place(path)
    if word := {"is missing": "no", "is unknown": "unknown"}.get(said):
        return f"{', '.join([where, *inner[:-1]])}: {word} key {inner[-1]!r}" if inner else f"{word} section {where!r}"
    if not inner:
        return f"{where} {said}"
    if inner[-1] == KEY:
        return f"{', '.join([where, *inner[:-2]])}: {value!r} {said}"
    if path[-1] != inner[-1]:
        return f"{', '.join([where, *inner[:-1]])}: {inner[-1]} has {value!r}, which {said}"
    return f"{', '.join([where, *inner[:-1]])}: {inner[-1]} = {value!r} {said}"


def _place(path: Sequence[int | str]) -> tuple[str, list[str]]:
    """Split a path into the words for a section or row, and the keys inside it; a list's index is left out."""
    where, *rest = map(str, path)
    if where == "base" and rest:
        where = f"base.{rest.pop(0)}"
    elif rest and rest[0].isdecimal():
        where = f"{where} row {int(rest.pop(0)) + 1}"
    if isinstance(path[-1], int):
        rest = rest[:-1]
    return where, [key for key in rest[:-1] if key not in _BY_VERSION] + rest[-1:]


def between_sections(table: Table) -> list[str]:
    """Return the faults in what sound sections say of each other."""
    releases = {
        "torch": [version for line in table.torch for version in line.releases],
        "transformers": [version for era in table.transformers for version in (*era.released, *era.yanked)],
    }
    named: Mapping[str, Mapping[str, Sequence[str]]] = {
        "default": {"torch": [table.default.torch], "transformers": [table.default.transformers]},
        "tested": {"torch": table.tested.torch, "transformers": table.tested.transformers},
    }
    found = [fault for package, versions in releases.items() for fault in _duplicates(package, versions)]
    found += [fault for line in table.torch for fault in _stack(line)]
    found += [f"transformers {era.era}: no release" for era in table.transformers if not (era.released or era.yanked)]
    for section, packages in named.items():
        for package, versions in packages.items():
            known = set(map(Version, releases[package]))
            found += [f"{section}: {package} {v} is not in the table" for v in versions if Version(v) not in known]
    return found


def _duplicates(package: str, versions: Iterable[str]) -> Iterable[str]:
    seen: set[Version] = set()
    for version in map(Version, versions):
        if version in seen:
            yield f"{package} {version} is in the table twice"
        seen.add(version)


def _stack(line: Line) -> Iterable[str]:
    """Find faults in a line: ccl requires all of its stack, gloo has none of it, and releases are the line's own."""
    ccl = line.backend == "ccl"
    for key, value in (("module", line.module), ("ccl_python", line.ccl_python)):
        if bool(value) != ccl:
            yield f"torch {line.line}: backend is {line.backend}, and {key} is {'missing' if ccl else 'given'}"
    is_in_one_place, is_nowhere = bool(line.index) != bool(line.find_links), not (line.index or line.find_links)
    if not (is_in_one_place if ccl else is_nowhere):
        yield f"torch {line.line}: backend is {line.backend}; a ccl line has one of index, find_links"
    for version, release in line.releases.items():
        if Version(version).release[:2] != Version(line.line).release[:2]:
            yield f"torch {line.line}: {version} does not belong to this line"
        if (bool(release.bindings), bool(release.ipex)) != (ccl, ccl):
            yield f"torch {version}: backend is {line.backend}; bindings and ipex go with ccl, both of them"
