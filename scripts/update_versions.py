#!/usr/bin/env python3
"""Propose rows for images/versions.toml from a package index: new releases, and those withdrawn since.

Prints the change as a unified diff; --write makes it. What an index cannot say stays to be filled in by hand:
a new range of transformers, when its metadata wants something else than the last one.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import requests
from packaging.version import InvalidVersion, Version

sys.path.insert(0, str(Path(__file__).parents[1]))

from images.host import pip_config, process
from images.host.download import TIMEOUT, without_secrets
from images.host.errors import Fault, Parser, WorldFault
from images.plan import catalog

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAMES = ("torch", "transformers", "impi-rt", "intel-openmp")

# Version -> its files, as the index's JSON lists them under "releases".
Releases = Mapping[str, Sequence[Mapping[str, Any]]]


def main(argv: Sequence[str]) -> int:
    """Print the proposed change; answer the exit code."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", metavar="URL", help="place of NAME/json (default: beside pip's own index)")
    parser.add_argument("--table", type=Path, default=catalog.TABLE, metavar="FILE", help="the table to compare with")
    parser.add_argument("--write", action="store_true", help="change the table instead of only printing the change")
    try:
        options = parser.parse_args(argv)
        catalog.load(options.table)
        old = options.table.read_text(encoding="utf-8")
        raw = tomllib.loads(old)
        index = options.index or default_index(os.environ)
        new = proposed(old, raw, {name: ask(index, name) for name in NAMES})
        sys.stdout.write(diff(old, new, options.table.name))
        if new == old:
            print("nothing new", file=sys.stderr)
        if options.write:
            options.table.write_text(new)
    except Fault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    except OSError as error:
        print(f"error: {error.strerror}: {error.filename}\n  try: --table FILE", file=sys.stderr)
        return 1
    return 0


def default_index(environ: Mapping[str, str]) -> str:
    """Take the index that pip is configured with, else the one that pip's help names; its JSON lies beside /simple."""
    told = process.run([sys.executable, "-m", "pip", "download", "--help"], environ, "python3 -m ensurepip").out
    own = re.search(r"\(default\s+(http\S+?)\)", told)
    found = pip_config.read(environ).index or (own[1] if own else None)
    if found is None:
        raise WorldFault("pip names no index", "pip download --help", "--index URL")
    return re.sub(r"/simple/?$", "/pypi", found)


def ask(index: str, name: str) -> Releases:
    """Read the releases of a project from the index.

    Raises WorldFault when they cannot be had.
    """
    url = f"{index.rstrip('/')}/{name}/json"
    try:
        answer = requests.get(url, timeout=TIMEOUT)
        answer.raise_for_status()
        releases: Releases = answer.json()["releases"]
    except (requests.RequestException, ValueError, KeyError) as error:
        remedy = "check the network and proxy settings (HTTPS_PROXY), or --index with a mirror that has NAME/json"
        why = type(error).__name__
        raise WorldFault("cannot read releases from the index", f"{without_secrets(url)} ({why})", remedy) from error
    return releases


def proposed(text: str, raw: Mapping[str, Any], index: Mapping[str, Releases]) -> str:
    """Answer the text of the table with what the index has and the table has not."""
    text = _with_transformers(text, raw, index["transformers"])
    return _with_torch(text, raw, index)


def diff(old: str, new: str, name: str) -> str:
    """Write a change as a unified diff."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(lines)


def _finals(releases: Releases) -> Iterable[tuple[Version, datetime.date, str | None]]:
    """List releases with files, in order: version, first day, and the reason where all was withdrawn."""
    found = []
    for text, files in releases.items():
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        if files and not version.is_prerelease and not version.is_devrelease:
            reason = (files[0].get("yanked_reason") or "no reason given").strip()
            yanked = reason if all(file.get("yanked") for file in files) else None
            found.append((version, _day(files), yanked))
    return sorted(found, key=lambda row: row[0])


def _day(files: Sequence[Mapping[str, Any]]) -> datetime.date:
    return min(datetime.date.fromisoformat(file["upload_time"][:10]) for file in files)


def _with_transformers(text: str, raw: Mapping[str, Any], releases: Releases) -> str:
    known = set(_versions(raw, "transformers"))
    good = {Version(version) for era in raw["transformers"] for version in era["released"]}
    oldest = min(known)
    for version, day, reason in _finals(releases):
        if version < oldest or (version in known and not (reason and version in good)):
            continue
        era = _era_of(version, raw)
        text = re.sub(rf'(?m)^"{re.escape(str(version))}" = \d{{4}}-.*\n', "", text)
        if reason is None:
            text = _append(text, era, "[transformers.released]", f'"{version}" = {day}')
        else:
            quoted = reason.replace("\\", "\\\\").replace('"', '\\"')
            row = f'"{version}" = {{ released = {day}, reason = "{quoted}" }}'
            text = _append(text, era, "[transformers.yanked]", row)
    return text


def _versions(raw: Mapping[str, Any], section: str) -> list[Version]:
    """List every release that a section names, in the order of the file."""
    keys = ("releases", "released", "yanked")
    return [Version(text) for row in raw[section] for key in keys for text in row.get(key, {})]


def _era_of(version: Version, raw: Mapping[str, Any]) -> str:
    """Find the range that a release falls into: the last one that begins no later."""
    first = {row["era"]: min(map(Version, {**row["released"], **row["yanked"]})) for row in raw["transformers"]}
    fitting = [era for era, start in first.items() if start.release[:2] <= version.release[:2]]
    return f'era = "{fitting[-1]}"'


def _append(text: str, anchor: str, heading: str, row: str) -> str:
    """Put a row at the end of the section that follows the anchor."""
    start = text.index(heading, text.index(anchor + "\n")) + len(heading) + 1
    end = re.compile(r"^(?!\")", re.MULTILINE).search(text, start)
    place = end.start() if end else len(text)
    return f"{text[:place]}{row}\n{text[place:]}"


def _with_torch(text: str, raw: Mapping[str, Any], index: Mapping[str, Releases]) -> str:
    known = set(_versions(raw, "torch"))
    lines = {row["line"] for row in raw["torch"]}
    for version, day, reason in _finals(index["torch"]):
        if version in known or version < min(known) or reason is not None:
            continue
        line = ".".join(map(str, version.release[:2]))
        if line not in lines:
            text = _with_line(text, line, _pythons(index["torch"][str(version)]), str(version))
            lines.add(line)
        impi, openmp = (_newest(index[name], day) for name in ("impi-rt", "intel-openmp"))
        row = f'"{version}" = {{ released = {day}{_stack(line, raw)}, impi = "{impi}", openmp = "{openmp}" }}'
        text = _append(text, f'line = "{line}"', "[torch.releases]", row)
    return text


def _stack(line: str, raw: Mapping[str, Any]) -> str:
    """Repeat the oneCCL bindings and IPEX of the line's last release: they follow the line, not the release."""
    releases = [release for row in raw["torch"] if row["line"] == line for release in row["releases"].values()]
    last = releases[-1] if releases else {}
    return "".join(f', {name} = "{last[name]}"' for name in ("bindings", "ipex") if name in last)


def _with_line(text: str, line: str, pythons: Sequence[str], version: str) -> str:
    """Add an empty line of torch behind the last one: with gloo, the only backend since 2.8."""
    listed = ", ".join(f'"{python}"' for python in pythons)
    made = f'[[torch]]\nline = "{line}"\npython = [{listed}]\nbackend = "gloo"\nglibc = "2.28"\n'
    made += f'source = "PyPI files of torch {version}"\n[torch.releases]\n\n'
    start = text.rindex("[torch.releases]\n") + len("[torch.releases]\n")
    end = re.compile(r"^(?![\"\n])", re.MULTILINE).search(text, start)
    place = end.start() if end else len(text)
    return text[:place] + made + text[place:]


def _pythons(files: Sequence[Mapping[str, Any]]) -> list[str]:
    found = {match[1] for file in files if (match := re.search(r"-cp3(\d+)-cp3\d+-.*x86_64", file["filename"]))}
    return [f"3.{minor}" for minor in sorted(map(int, found))]


def _newest(releases: Releases, day: datetime.date) -> Version:
    """Find the newest release with a Linux wheel on a day."""
    wheels = {
        text: [f for f in files if "linux" in f["filename"] and "x86_64" in f["filename"] and not f.get("yanked")]
        for text, files in releases.items()
    }
    return max(version for version, first, _ in _finals(wheels) if first <= day)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
