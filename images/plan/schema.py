"""What versions.toml has to look like: each section's keys and what a value may be."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

Check = Callable[[Any], "str | None"]
Raw = Mapping[str, Any]


def _of(kind: type, name: str) -> Check:
    return lambda value: None if type(value) is kind else f"is not {name}"


def _parsed(parse: Callable[[str], object], name: str) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return "is not a text"
        try:
            parse(value)
        except (InvalidVersion, InvalidSpecifier, InvalidRequirement):
            return f"is not {name}"
        return None

    return check


def _each(check: Check) -> Check:
    def check_all(value: Any) -> str | None:
        if not isinstance(value, list):
            return "is not a list"
        return next((f"has {item!r}, which {fault}" for item in value if (fault := check(item))), None)

    return check_all


def _one_of(*words: str) -> Check:
    return lambda value: None if value in words else "is not " + " or ".join(words)


TEXT, DAY, SWITCH = _of(str, "a text"), _of(datetime.date, "a day"), _of(bool, "true or false")
TABLE = _of(dict, "a table")
VERSION, RANGE = _parsed(Version, "a version"), _parsed(SpecifierSet, "a version range")
TEXTS, VERSIONS = _each(TEXT), _each(VERSION)
REQUIREMENTS = _each(_parsed(Requirement, "a requirement"))
BACKEND = _one_of("ccl", "gloo")

# Section -> key -> check. A key that ends in ? may be left out.
ROWS: Mapping[str, Mapping[str, Check]] = {
    "torch": {
        "line": VERSION, "python": VERSIONS, "backend": BACKEND, "module?": TEXT, "ccl_python?": VERSIONS,
        "index?": TEXT, "find_links?": TEXT, "numpy?": RANGE, "glibc?": VERSION, "notes?": TEXTS, "source": TEXT,
        "releases": TABLE,
    },
    "transformers": {
        "era": TEXT, "source": TEXT, "python": RANGE, "torch": RANGE, "accelerate": RANGE, "requires": REQUIREMENTS,
        "libraries": DAY, "ccl": SWITCH, "flags": TEXTS, "released": TABLE, "yanked": TABLE,
    },
    "source-only": {"name": TEXT, "version": VERSION, "requires": REQUIREMENTS},
}  # fmt: skip
TABLES: Mapping[str, Mapping[str, Check]] = {
    "default": {"torch": VERSION, "transformers": VERSION},
    "tested": {"torch": VERSIONS, "transformers": VERSIONS},
    "ccl": {"accelerate": RANGE},
    "base.debian": {"suite": TEXT, "python": VERSION, "glibc": VERSION, "packages": TEXTS},
    "base.intel": {"repository": TEXT, "suite": TEXT, "python": VERSION, "glibc": VERSION, "packages": TEXTS},
    "base.reference": {"glibc": VERSION},
}
RELEASE: Mapping[str, Check] = {
    "released": DAY, "bindings?": VERSION, "ipex?": VERSION, "impi": VERSION, "openmp": VERSION, "image?": TEXT,
}  # fmt: skip
YANK: Mapping[str, Check] = {"released": DAY, "reason": TEXT}


def faults(raw: Raw) -> list[str]:
    """Find everything that is wrong with the table."""
    found = list(_shapes(raw))
    # What the sections say of each other can only be asked when each is sound.
    return found or [*_duplicates(raw), *_stacks(raw), *_unknown(raw)]


def _shapes(raw: Raw) -> Iterable[str]:
    for section, keys in TABLES.items():
        value: Any = raw
        for part in section.split("."):
            value = value.get(part, {}) if isinstance(value, dict) else {}
        yield from _row(section, value, keys) if value else [f"no section {section!r}"]
    for section, keys in ROWS.items():
        if not isinstance(raw.get(section), list):
            yield f"no section {section!r}"
            continue
        for number, row in enumerate(raw[section], 1):
            where = f"{section} row {number}"
            yield from _row(where, row, keys)
            yield from _releases(where, row)
    tasks = raw.get("tasks")
    if not isinstance(tasks, dict) or not tasks:
        yield "no section 'tasks'"
    else:
        yield from _row("tasks", tasks, dict.fromkeys(tasks, REQUIREMENTS))


def _row(where: str, row: Any, keys: Mapping[str, Check]) -> Iterable[str]:
    if not isinstance(row, dict):
        yield f"{where} is not a table"
        return
    known = {key.rstrip("?"): check for key, check in keys.items()}
    yield from (f"{where}: no key {key!r}" for key in sorted(keys) if not key.endswith("?") and key not in row)
    yield from (f"{where}: unknown key {key!r}" for key in sorted(row.keys() - known.keys()))
    for key, value in row.items():
        if key in known and (fault := known[key](value)):
            yield f"{where}: {key} = {value!r} {fault}"


def _releases(where: str, row: Any) -> Iterable[str]:
    """Look into the tables that are keyed by version."""
    for key in ("releases", "released", "yanked"):
        releases = row.get(key, {}) if isinstance(row, dict) else {}
        for text, value in releases.items() if isinstance(releases, dict) else ():
            if VERSION(text):
                yield f"{where}: {text!r} is not a version"
            elif key == "released":
                yield from [f"{where}: {text} = {value!r} is not a day"] if DAY(value) else []
            else:
                yield from _row(f"{where}, {text}", value, RELEASE if key == "releases" else YANK)


def versions(raw: Raw, section: str) -> list[Version]:
    """List every release that a section names, in the order of the file."""
    keys = ("releases", "released", "yanked")
    return [Version(text) for row in raw[section] for key in keys for text in row.get(key, {})]


def _duplicates(raw: Raw) -> Iterable[str]:
    for section in ("torch", "transformers"):
        seen: set[Version] = set()
        for version in versions(raw, section):
            if version in seen:
                yield f"{section} {version} is in the table twice"
            seen.add(version)


def _stacks(raw: Raw) -> Iterable[str]:
    """A ccl line needs all of its stack, a gloo line none of it, and a line holds its own releases only."""
    for row in raw["torch"]:
        ccl = row["backend"] == "ccl"
        for key in ("module", "ccl_python"):
            if (key in row) != ccl:
                yield f"torch {row['line']}: backend is {row['backend']}, and {key} is {'missing' if ccl else 'given'}"
        if ("index" in row) + ("find_links" in row) != ccl:
            yield f"torch {row['line']}: backend is {row['backend']}; a ccl line has one of index, find_links"
        for text, release in row["releases"].items():
            if Version(text).release[:2] != Version(row["line"]).release[:2]:
                yield f"torch {row['line']}: {text} does not belong to this line"
            if ("bindings" in release, "ipex" in release) != (ccl, ccl):
                yield f"torch {text}: backend is {row['backend']}; bindings and ipex go with ccl, both of them"


def _unknown(raw: Raw) -> Iterable[str]:
    for section in ("torch", "transformers"):
        known = set(versions(raw, section))
        named = {"default": [raw["default"][section]], "tested": raw["tested"][section]}
        for where, texts in named.items():
            yield from (f"{where}: {section} {t} is not in the table" for t in texts if Version(t) not in known)
        yield from [f"{section} has no release"] if not known else []
