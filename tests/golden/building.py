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
# The machine's Python compiles in the place of the base's, as if in a container. What it made differs between its
# releases, and so a text is taken instead, which says of which file it is and what its header would have.
PROGRAMS = {
    "programs/podman": b"""\
#!/bin/sh
case "$1" in
    info | load) exit 0 ;;
    run) ;;
    *) exit 1 ;;
esac
while [ "$1" != -c ]; do shift; done
shift
unset PYTHONHOME
export PATH=/usr/local/bin:/usr/bin:/bin PYTHONHASHSEED=0
exec python3 -I -S -B -c '
import importlib._bootstrap_external as bootstrap, sys
def code_to_text(code, mtime, size):
    return f"bytecode of {code.co_filename}, {size} bytes of {mtime}".encode()
bootstrap._code_to_timestamp_pyc = code_to_text
program = sys.argv.pop(1)
exec(program)
' "$@"
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
