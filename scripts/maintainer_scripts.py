"""Name the scripts of Debian's packages that are not known, and write down those that somebody has read.

No base is made of a package with such a script, and none is ever run: what one makes on an empty system is a row of
images/dpkg/suites.py. So read what this prints, write the rows that are missing, and say of each script what it
makes: `rows` where those have it, `nothing` where an image needs nothing of it.

    python -m scripts.maintainer_scripts                              # the packages of images/versions.toml
    python -m scripts.maintainer_scripts git                          # and git
    python -m scripts.maintainer_scripts git --known git.postinst=nothing

Where all are known, and no PACKAGE is named, the file system of each base is made, so that a row that does not fit is
named here; then the record is written that the unit tests compare with the table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from images import startup

if __name__ == "__main__":
    startup.end_at_interrupt()

try:
    from images import pip_config
    from images.base import additions
    from images.context import Context
    from images.debian.deb import Debian, Package, load_control
    from images.debian.packages import resolve_base, resolve_single
    from images.dpkg import rootfs, suites
    from images.dpkg.suites import Script
    from images.host.errors import UserFault, WorldFault, shown
    from images.host.files import write_whole
    from images.options import Parser
    from images.plan import catalog
    from images.plan.catalog import BaseRow
    from images.platforms import PLATFORMS, Platform
    from scripts import program
except ModuleNotFoundError as missing:
    sys.exit(f"error: a Python package is missing: {missing.name}\n  try: pip install -e '.[test]'")

RECORD = Path(__file__).parents[1] / "tests" / "data" / "debian.json"
MAKES = ("nothing", "rows")


class System(NamedTuple):
    """A base: its row, its packages, as they lie at `debs` and without their files; what others get."""

    row: BaseRow
    platform: Platform
    recipe: Debian
    debs: Sequence[Path]
    packages: Sequence[Package]
    additions: Sequence[str]


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Print the scripts that are not known; return the exit code."""
    parser = Parser(
        "scripts.maintainer_scripts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="packages beside those of the table")
    parser.add_argument("--suite", metavar="SUITE", help="only this one, which may have no row (default: all rows)")
    parser.add_argument("--known", action="append", default=[], metavar="PACKAGE.SCRIPT=nothing|rows",
                        help="a script that was read, and what it makes; more than once for more scripts")  # fmt: skip
    return program.ended(lambda: _run(parser.parse_args(argv), environ))


def _run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = program.context(environ, pip_config.read_sources(environ))
    systems = [
        _system(row, platform, options.packages, context) for row in _rows(options.suite) for platform in PLATFORMS
    ]
    unknown = {(one.name, one.key): one for system in systems for one in suites.list_unknown(system.packages)}
    answers = dict(_parse_answer(text, systems) for text in options.known)
    if absent := answers.keys() - {one.name for one in unknown.values()}:
        raise UserFault("--known names no script that is unknown", ", ".join(sorted(absent)), "leave it out")
    accepted = [one for one in unknown.values() if one.name in answers]
    if accepted:
        suites.add_known(accepted)
    if left := [one for one in unknown.values() if one.name not in answers]:
        _print(left)
        names = dict.fromkeys(one.name for one in left)  # of suites a script may have several texts
        remedy = "read them above, write their rows, then " + " ".join(f"--known {name}=nothing" for name in names)
        raise WorldFault("scripts of Debian's packages are not known", ", ".join(names), remedy)
    if not options.packages and not options.suite:
        for system in systems:
            rootfs.make_tree(system.recipe, system.debs, system.platform)
        write_whole(RECORD, _record(systems).encode())
    print(f"every script is known: {len(systems)} systems, {len(accepted)} scripts more than before")
    return 0


def _rows(suite: str | None) -> Sequence[BaseRow]:
    """Return the rows of Debian's suites, or that of one; one that has none is asked for no package of its own."""
    rows = catalog.load().suites
    if suite is None:
        return rows
    return [row for row in rows if row.suite == suite] or [BaseRow(suite=suite, python="3", glibc="2", packages=())]


def _system(row: BaseRow, platform: Platform, more: Sequence[str], context: Context) -> System:
    base = resolve_base(row.suite, (*row.packages, *more), platform, context)
    debs = [context.store.place(deb.sha256, deb.filename) for deb in base.debs]
    added = resolve_single(row.suite, additions.packages_of(list(additions.PIECES)), platform, context)
    return System(row, platform, base, debs, [load_control(deb) for deb in debs], [deb.package for deb in added])


def _parse_answer(text: str, systems: Iterable[System]) -> tuple[str, str]:
    """Read PACKAGE.SCRIPT=nothing|rows.

    Raises UserFault for something else, and where there are no such rows.
    """
    name, _, makes = text.partition("=")
    if makes not in MAKES:
        raise UserFault("--known is not PACKAGE.SCRIPT=nothing|rows", text, "--known git.postinst=nothing")
    package = name.rpartition(".")[0]
    rows = (row for system in systems for row in suites.rows(system.row.suite, system.platform))
    if makes == "rows" and not any(row[0] == package for row in rows):
        remedy = f"write what {name} makes into images/dpkg/suites.py, or say =nothing"
        raise UserFault("there are no rows of that package", package, remedy)
    return name, makes


def _print(scripts: Iterable[Script]) -> None:
    for script in scripts:
        print(f"=== {script.name} of {script.version} (key {script.key})")
        print("\n".join(map(shown, script.text.expandtabs().splitlines())), end="\n\n")


def _record(systems: Iterable[System]) -> str:
    """Write what was found for each row: keys of scripts, and the packages that bases of others get."""
    record: dict[str, dict[str, object]] = {}
    for system in systems:
        scripts = {one.name: one.key for member in system.packages for one in suites.scripts(member)}
        record.setdefault(system.row.suite, {})[str(system.platform)] = {
            "asked": system.row.packages, "scripts": scripts, "additions": system.additions,
        }  # fmt: skip
    return json.dumps(record, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
