"""Which scripts of Debian's packages somebody has read for effects.py: a package with another one is in no base."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from images.debian.deb import Package
from images.host.errors import WorldFault
from images.platforms import PLATFORMS

KNOWN = Path(__file__).with_name("scripts.json")
RUN_FIRST = ("preinst", "postinst")  # what a first installation runs
# What one script has in different words for each machine.
MACHINES = re.compile("|".join(f"{platform.multiarch}|:{platform.architecture}" for platform in PLATFORMS))


class Script(NamedTuple):
    """A script of a package: what it is called (PACKAGE.SCRIPT), its key, the version of its package, and its text."""

    name: str
    key: str
    version: str
    text: str


def scripts(package: Package) -> list[Script]:
    """Return the scripts of a package that its first installation runs."""
    names = [name for name in RUN_FIRST if name in package.control]
    return [Script(f"{package.name}.{n}", script_key(package, n), package.version, package.text(n)) for n in names]


def script_key(package: Package, name: str) -> str:
    """Return the sha256 of a script without comments, blank lines, the version of its package and the machine."""
    text = MACHINES.sub("MACHINE", package.text(name).replace(package.version, "VERSION"))
    lines = (line.strip() for line in text.splitlines())
    kept = "\n".join(line for line in lines if line and not line.startswith("#"))
    return hashlib.sha256(kept.encode()).hexdigest()


@functools.cache
def read_known() -> Mapping[str, Sequence[str]]:
    """Return the keys of the known scripts, by their names."""
    return dict(json.loads(KNOWN.read_text()))


def with_known(more: Iterable[Script]) -> str:
    """Return the text of scripts.json with some scripts more: a line for each key."""
    known = {name: [*keys] for name, keys in read_known().items()}
    for script in more:
        known.setdefault(script.name, []).append(script.key)
    rows = (f'"{name}": [' + ",\n".join(f'"{one}"' for one in keys) + "]" for name, keys in sorted(known.items()))
    return "{\n" + ",\n".join(rows) + "\n}\n"


def list_unknown(packages: Iterable[Package]) -> list[Script]:
    """Return the scripts of packages that are not known."""
    known = read_known()
    return [one for package in packages for one in scripts(package) if one.key not in known.get(one.name, ())]


def require_known(packages: Iterable[Package]) -> None:
    """Raise WorldFault where a package has a script that is not known."""
    if strange := [f"{one.name} of {one.version}" for one in list_unknown(packages)]:
        remedy = "a newer release of multinode, or the lock of an earlier image (--lock): no script of a package is run"
        raise WorldFault("Debian's packages have scripts that are not known here", ", ".join(strange), remedy)
