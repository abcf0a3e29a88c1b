#!/usr/bin/env python3
"""Propose rows for images/versions.toml from a package index: new releases, and those of transformers withdrawn since.

Prints the change as a unified diff; --write makes it. What an index cannot say stays to be filled in by hand:
a new range of transformers, when its metadata requires something else than the last one. A torch that is withdrawn,
or has no wheels for Linux yet, changes no row: a line on standard error says so.

--check resolves pairs that cover the table, as build.py does, and prints a line for each. The exit code is 2 when one
fails, and 1 when one could not be asked.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from images import startup

if __name__ == "__main__":
    startup.end_at_interrupt()

try:
    import tomlkit
    from packaging.version import Version

    from images import pip_config
    from images.host.errors import UserFault, shown
    from images.host.files import write_whole
    from images.options import Parser
    from images.plan import catalog
    from scripts import program
    from scripts.versions import package_index, resolvable
    from scripts.versions.package_index import File, Releases
except ModuleNotFoundError as missing:
    sys.exit(f"error: a Python package is missing: {missing.name}\n  try: pip install -e '.[test]'")

NAMES = ("torch", "transformers", "impi-rt", "intel-openmp")


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Print the proposed change; return the exit code."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", metavar="URL", help="root of a package index with its simple API (default: pip's)")
    parser.add_argument("--table", type=Path, default=catalog.TABLE, metavar="FILE", help="the table to compare with")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="change the table instead of only printing the change")
    what.add_argument("--check", action="store_true", help="resolve rows of the table; download no wheel")
    parser.add_argument("--jobs", type=int, metavar="N", default=os.cpu_count(), help="rows resolved at once")
    return program.ended(lambda: _run(parser.parse_args(argv), environ))


def _run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    _check_index(options.index)
    return (_check if options.check else _propose)(options, environ)


def _check_index(url: str | None) -> None:
    """Raise UserFault for what is no address of an index."""
    if url is not None:
        pip_config.check_addresses("--index", [url])
        if not url:
            raise UserFault("that is not an address", "--index ''", "https://HOST/PATH")


def _propose(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the change and what goes with it; make it where that is asked for."""
    old = options.table.read_text(encoding="utf-8", errors="replace")
    catalog.load(options.table)
    sources = pip_config.read_sources(environ)
    released = {name: package_index.releases(name, options.index, sources) for name in NAMES}
    new = proposed(old, released)
    print(diff(old, new, options.table.name), end="", flush=True)
    for note in notes(old, released["torch"]):
        print(shown(note), file=sys.stderr)
    if new == old:
        print("nothing new", file=sys.stderr)
    elif options.write:
        write_whole(options.table, new.encode())  # a full disk does not take the table that was there
    return 0


def _check(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Resolve rows that cover the table, and print what becomes of each.

    Raises UserFault for a number of jobs that is none.
    """
    if options.jobs < 1:
        raise UserFault("cannot work with that many jobs", options.jobs, "--jobs 2")
    plans, sources = resolvable.chosen(catalog.load(options.table)), pip_config.read_sources(environ)
    if options.index:
        sources = replace(sources, index=options.index)
    context = program.context(environ, sources)
    outcomes = []
    for outcome in resolvable.outcomes(plans, context, options.jobs):
        print(outcome.line, flush=True)
        outcomes.append(outcome)
    print(resolvable.summary(outcomes), file=sys.stderr)
    return resolvable.exit_code(outcomes)


def proposed(text: str, index: Mapping[str, Releases]) -> str:
    """Return the text of the table with what the index has and the table has not."""
    table: Any = tomlkit.parse(text)
    _add_transformers(table["transformers"], index["transformers"])
    _add_torch(table["torch"], index)
    return tomlkit.dumps(table)


def notes(text: str, released: Releases) -> Iterator[str]:
    """Yield what is to be said of torch, and is in no row: new releases without wheels yet, and withdrawn ones."""
    table: Any = tomlkit.parse(text)
    known = _releases(table["torch"])
    for version, files in _new(known, released):
        if not package_index.pythons(files):
            yield f"torch {version} has no wheels for Linux yet: its row comes when they are there"
    for version in sorted(known & released.keys()):
        if (reason := package_index.yanked(released[version])) is not None:
            yield f"torch {version} is withdrawn ({reason}): its row stays until it is removed by hand"


def diff(old: str, new: str, name: str) -> str:
    """Return a change as a unified diff."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(lines)


def _add_transformers(eras: Any, released: Releases) -> None:
    known = {Version(text): era for era in eras for text in (*era["released"], *era["yanked"])}
    for version, files in sorted(released.items()):
        name, reason = str(version), package_index.yanked(files)
        withdrawn = reason is not None and version in known and name in known[version]["released"]
        if version < min(known) or (version in known and not withdrawn):
            continue
        era = known.get(version) or _era_of(version, eras)
        if reason is None:
            era["released"][name] = package_index.day(files)
        else:
            era["released"].pop(name, None)
            era["yanked"][name] = _row(released=package_index.day(files), reason=reason)


def _era_of(version: Version, eras: Iterable[Any]) -> Any:
    """Find the range that a release falls into: the last one that begins no later."""
    first = [(min(map(Version, (*era["released"], *era["yanked"]))), era) for era in eras]
    return [era for start, era in first if _minor(start) <= _minor(version)][-1]


def _minor(version: Version) -> tuple[int, tuple[int, ...]]:
    return version.epoch, version.release[:2]


def _releases(lines: Any) -> set[Version]:
    return {Version(text) for line in lines for text in line["releases"]}


def _new(known: set[Version], released: Releases) -> Iterator[tuple[Version, Sequence[File]]]:
    """Yield the releases that the table lacks, but those before its first and those that are withdrawn already."""
    for version, files in sorted(released.items()):
        if version not in known and version > min(known) and package_index.yanked(files) is None:
            yield version, files


def _add_torch(lines: Any, index: Mapping[str, Releases]) -> None:
    by_name = {line["line"]: line for line in lines}
    for version, files in _new(_releases(lines), index["torch"]):
        if not package_index.pythons(files):  # those for Windows came first; an image needs Linux
            continue
        name, day = ".".join(map(str, version.release[:2])), package_index.day(files)
        if name not in by_name:
            lines.append(_line(name, version, files))
            by_name[name] = lines[-1]
        rows = by_name[name]["releases"]
        # oneCCL bindings and IPEX follow the line, not the release.
        last: Mapping[str, str] = next(reversed(rows.unwrap().values()), {})
        stack = {package: last[package] for package in ("bindings", "ipex") if package in last}
        impi, openmp = (str(package_index.newest(index, package, day)) for package in ("impi-rt", "intel-openmp"))
        rows[str(version)] = _row(released=day, **stack, impi=impi, openmp=openmp)


def _line(name: str, version: Version, files: Iterable[File]) -> Any:
    """Make a line of torch without releases: with gloo, the only backend since 2.8."""
    pythons = ", ".join(f'"{python}"' for python in package_index.pythons(files))
    text = f'\n[[torch]]\nline = "{name}"\npython = [{pythons}]\nbackend = "gloo"\nglibc = "2.28"\n'
    document: Any = tomlkit.parse(f'{text}source = "PyPI files of torch {version}"\n[torch.releases]\n\n')
    return document["torch"][0]


def _row(**values: str | datetime.date) -> Any:
    """Make an inline table as the file writes them, with a space inside the braces."""
    text = ", ".join(f"{key} = {tomlkit.item(value).as_string()}" for key, value in values.items())
    document: Any = tomlkit.parse(f"row = {{ {text} }}\n")
    return document["row"]


if __name__ == "__main__":
    startup.raise_interrupts()
    sys.exit(main(sys.argv[1:]))
