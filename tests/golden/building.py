"""Run a whole build from a base and wheels that are made for it, without a network, an engine or Debian's packages."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.golden.command import Said, directory, run
from tests.support.stand_in import Image, layout, write

# No pip configuration of this machine, an index (a directory) that has nothing, and a directory of wheels instead.
PIP = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "file:///dev", "PIP_FIND_LINKS": "linked"}
# The base's Python is a script for this machine's, which no sandbox has.
PROGRAMS = {
    "programs/bwrap": b"""\
#!/bin/sh
while [ "$1" != -- ]; do
    [ "$1" != --setenv ] || { export "$2=$3"; shift 2; }
    shift
done
shift
exec "$@"
"""
}
EXAMPLES = {
    "examples/examples/pytorch/text-generation/run_generation.py": b"#!/usr/bin/env python\nprint('generating')\n",
    "examples/examples/pytorch/text-generation/requirements.txt": b"torch\n",
    "examples/LICENSE": b"a licence\n",
    "examples/src/transformers/__init__.py": b"not taken\n",
}
ALWAYS = "--base oci:base --python 3.11 --no-bytecode --no-load --json"


@dataclass(frozen=True)
class Debian:
    """How an image is made: the base, what fills the directory `wheels` or `linked`, and what is typed."""

    base: Image
    fill: Callable[[Path], object]
    typed: str


@contextmanager
def built(recipe: Debian) -> Iterator[tuple[Said, Path]]:
    """Run a build in a directory of its own, with the base in base/; return what was said, and the directory."""
    with directory({**PROGRAMS, **EXAMPLES}) as place:
        write(place / "base", layout({"1": recipe.base}))
        (place / "wheels").mkdir()
        (place / "linked").symlink_to("wheels")
        recipe.fill(place / "wheels")
        path = f"{place / 'programs'}:{os.environ['PATH']}"
        yield run(shlex.split(f"{ALWAYS} {recipe.typed}"), {**PIP, "PATH": path, "HOME": str(place)}), place
