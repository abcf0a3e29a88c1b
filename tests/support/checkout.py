"""A copy of what build.py runs, which a test may change, and a directory where it builds from stand-ins.

The wheels and the files of the base are those of the golden data, the latter in a package of an archive that is signed
by a key of the copy. So a build needs neither a network nor an engine, and takes a second or two.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images.debian.archive import VARIABLE
from images.plan import catalog
from tests.golden import base, wheels
from tests.golden.building import PIP, PROGRAMS
from tests.golden.command import NO_ENGINE
from tests.support.harness import ROOT, Done
from tests.support.locks import path_beside
from tests.support.packages import Archive, simple
from tests.support.stand_in import layer, write

PARTS = ("build.py", "images", "multinode_image")
KEYRING = "images/debian/keyring.gpg"
MORE = ("apt", "another-package")  # besides those of the table
# Everything that a lock can hold: packages of Debian's, a source archive, scripts, and what is left out.
PAIR = ("--torch", "2.13.0", "--transformers", "4.57.6")
REQUEST = (*PAIR, "--base", "debian", "--examples", "none", "--no-bytecode")


@dataclass(frozen=True)
class Checkout:
    """What build.py runs, in a directory of its own, and the directory in which it is run."""

    sources: Path
    place: Path

    def copy(self, name: str) -> Checkout:
        """Copy the sources, to change them; what was built, and the cache, stay common."""
        return copied(self.sources, self.sources.with_name(name), self.place)

    def replace(self, file: str, old: str, new: str) -> None:
        """Change a text in one of the sources.

        Raises AssertionError when it is not there.
        """
        path = self.sources / file
        text = path.read_text()
        assert old in text, f"{file} has no {old!r} any more"
        path.write_text(text.replace(old, new))

    def run(self, *words: str, python: Path | str = sys.executable, cache: str = "cache", **more: str) -> Done:
        """Run `build.py WORDS` with an interpreter, a cache below the place, and more environment variables."""
        command = [str(python), str(self.sources / "build.py"), *words]
        environ = {**_environment(self.place), "XDG_CACHE_HOME": str(self.place / cache), **more}
        done = subprocess.run(
            command, cwd=self.place, env=environ, capture_output=True, text=True, timeout=300, check=False
        )
        print(f"+ {' '.join(command)}\n{done.stdout}{done.stderr}[exit code {done.returncode}]")
        return Done(done.returncode, done.stdout, done.stderr)

    def build(self, *words: str, python: Path | str = sys.executable, cache: str = "cache", **more: str) -> Built:
        """Build an image and return what is said of it.

        Raises AssertionError when it cannot be built.
        """
        done = self.run("--no-load", "--json", *words, python=python, cache=cache, **more)
        assert done.code == 0
        return Built(json.loads(done.out), [line for line in done.err.splitlines() if line.startswith("note: ")])

    def lock(self, *words: str, python: Path | str = sys.executable) -> tuple[Built, Path]:
        """Build an image into a layout; return what is said of it, and the lock beside it."""
        built = self.build(*words, "--output", "layout/", python=python)
        return built, path_beside(self.place / "layout")


@dataclass(frozen=True)
class Built:
    """What build.py says of an image, as JSON has it, and its notes on stderr."""

    said: Mapping[str, Any]
    notes: Sequence[str]

    @property
    def digest(self) -> str:
        """Return the digest of the manifest."""
        return str(self.said["digest"])

    @property
    def reused(self) -> list[str]:
        """Return the names of the layers that an earlier build made."""
        return [layer["name"] for layer in self.said["layers"] if layer["reused"]]

    @property
    def new(self) -> list[str]:
        """Return the names of the layers that this build made."""
        return [layer["name"] for layer in self.said["layers"] if not layer["reused"]]


def make(place: Path) -> Checkout:
    """Copy this repository's sources, and write all that a build needs."""
    work = place / "work"
    (work / "wheels").mkdir(parents=True)
    (work / "linked").symlink_to("wheels")
    wheels.of_the_newest(work / "wheels")
    write(work, PROGRAMS)
    (work / "programs/podman").chmod(0o755)
    sources = copied(ROOT, place / "sources", work)
    archive = Archive(work / "debian")
    names = sorted({*catalog.load().debian.packages, *MORE})
    root = simple("system", layer(base.SYSTEM), Essential="yes")
    archive.write({"": [root, *map(simple, names)]})
    (sources.sources / KEYRING).write_bytes(archive.keyring)
    return sources


def copied(sources: Path, target: Path, place: Path) -> Checkout:
    """Copy what build.py runs from one directory to another."""
    target.mkdir()
    for part in PARTS:
        if (sources / part).is_dir():
            shutil.copytree(sources / part, target / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(sources / part, target / part)
    return Checkout(target, place)


def _environment(place: Path) -> dict[str, str]:
    """Return the variables of a build; bytecode beside the sources would hide a change of the same second and size."""
    path = f"{place / 'programs'}:{os.environ['PATH']}"
    mirror = {VARIABLE: (place / "debian").as_uri()}
    return {**NO_ENGINE, **PIP, **mirror, "PATH": path, "HOME": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
