"""The part `network`: containers with a limit of what each sends, that train in some ways in turn, a step each.

Two containers have a core each, four have half a core each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.figures.measured import Figures
from benchmarks.host.containers import Setting
from benchmarks.host.scratch import Scratch
from benchmarks.settings.measure import check_units
from benchmarks.settings.pair import LARGE, SMALL, Group
from benchmarks.settings.scenes import WARM
from benchmarks.sides.multinode import Multinode
from images.host.errors import UserFault
from multinode_image.machine.files import read_text

RUNS = 1
FOUR = 4
DTYPES = ("float32", "bfloat16")
KINDS = (*DTYPES, f"four {DTYPES[1]}")
RATES = ("", "10gbit", "1gbit", "300mbit")
TURNS = Path(__file__).with_name("turns.py")
MOST = 600.0  # seconds of all ways under a limit
# Ways of turns.py under every limit: `apart` sends nothing, `default` is what nobody has chosen, `off` what
# DistributedDataParallel does itself; and further ways under some limits.
WAYS = ("apart", "default", "off")
OPTIONS = ("8 MB buckets", "50 MB buckets", "static graph", "unused parameters")
MORE: Mapping[tuple[str, str], Sequence[str]] = {
    ("float32", "300mbit"): ("bf16", "int8"),
    ("bfloat16", "300mbit"): ("int8",),
    ("bfloat16", "1gbit"): OPTIONS,
    ("bfloat16", ""): OPTIONS,
}


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train in float32, and in bfloat16 where the processor has units for it."""
    image = build_for(scratch, "network")
    for number in scratch.rounds(runs):
        scratch.say(f"run {number + 1}")
        measure_kind(open_group(scratch, image, KINDS[0]), figures, KINDS[0])
        with figures.optional("trainings in bfloat16"):
            check_units(read_text("/proc/cpuinfo") or "")
            for kind in KINDS[1:]:
                measure_kind(open_group(scratch, image, kind), figures, kind)


def build_for(scratch: Scratch, part: str) -> str:
    """Build the image of a part and return its name; raise UserFault on a machine that is too small."""
    if (os.cpu_count() or 1) < 2:
        raise UserFault("two containers of a core each need two cores", os.cpu_count(), "run it on a larger machine")
    image = scratch.image(part)
    scratch.say("the image")
    Multinode(scratch.directory, shared=True).run("--tag", image)
    return image


def open_group(scratch: Scratch, image: str, kind: str, given: Setting | None = None) -> Group:
    """Return the containers of a kind; given: what each has besides."""
    return Group(scratch, image, FOUR if kind.startswith("four ") else 2, TURNS, MOST, given or Setting())


def measure_kind(group: Group, figures: Figures, kind: str, rates: Sequence[str] = RATES) -> None:
    """Train under every limit; a long kind has larger batches of longer texts."""
    dtype = kind.rpartition(" ")[2]
    shape = replace(LARGE, steps=2, dtype=dtype) if kind.startswith("long ") else replace(SMALL, steps=6, dtype=dtype)
    for rate in rates:
        limit = rate or "no limit"
        group.scratch.say(f"{kind}, {limit}")
        with figures.optional(f"a network with {limit}, {kind}"):
            text = group.together([*shape.words, *WAYS, *MORE.get((kind, rate), ())], rate)
            for way, seconds in json.loads(text.strip().splitlines()[-1]).items():
                for step in seconds[WARM:]:
                    figures.add(name(kind, way, rate), step)


def name(kind: str, way: str, rate: str) -> str:
    """Return the name of the figure of a way under a limit: `float32 off 1gbit`."""
    return f"{kind} {way} {rate or 'unlimited'}"
