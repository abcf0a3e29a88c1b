"""A torchrun that is not there: what one has read of a command line, as tests/data/torchrun.json has it recorded."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from multinode_image.hooks.ends.ranks import TorchrunConfig
from multinode_image.settings import PLANNED
from multinode_image.world.starters import find_start

FILE = Path(__file__).parents[1] / "data/torchrun.json"


@cache
def recorded() -> dict[str, Any]:
    """Return the rows by what is typed and set."""
    return {spell(row["line"], row["environ"]): row for row in json.loads(FILE.read_text())}


def spell(line: str, environ: Mapping[str, str]) -> str:
    """Return a command line behind the variables that torchrun reads."""
    names = sorted(name for name in environ if name.startswith("PET_") and name != "PET_LOCAL_ADDR")
    return " ".join([*(f"{name}={environ[name]}" for name in names), line])


def ask(argv: Sequence[str], environ: Mapping[str, str]) -> TorchrunConfig | None:
    """Return what a torchrun has read that a start has become; None for any other program, and for our own torchrun."""
    start = find_start([*argv])
    if start is None or not start.must_be_asked or environ.get(PLANNED):
        return None
    words = argv[argv.index("-m") + 2 :] if argv[0] != "torchrun" else argv[1:]
    key = spell(" ".join(["torchrun", *words]), environ)
    assert key in recorded(), f"add this to {FILE.name}, and record it (tests/image/hooks/torchrun_options.py): {key}"
    row = recorded()[key]
    program = row["program"]
    if program == "python3":
        program = shutil.which(program, path=environ.get("PATH", os.defpath)) or program
    return TorchrunConfig(row["described"], program, row["words"])
