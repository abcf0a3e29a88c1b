"""The part `network`: containers with a limit of what each sends, and what ranks send chosen.

Two containers have a core each, four have half a core each.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.figures.measured import Figures
from benchmarks.host.scratch import Scratch
from benchmarks.settings.measure import check_units
from benchmarks.settings.pair import SMALL, Group
from benchmarks.settings.scenes import step
from benchmarks.sides.multinode import Multinode
from entrypoint.machine.files import read_text
from images.host.errors import UserFault

RUNS = 2
DTYPES = ("float32", "bfloat16")
RATES = ("", "10gbit", "1gbit", "300mbit")
# What is chosen under every limit: `default` is what nobody has chosen, `off` what DistributedDataParallel does itself;
# and what under the smallest limit alone.
FEW = ("default", "off")
MORE: Mapping[str, Sequence[str]] = {"float32": ("bf16", "int8"), "bfloat16": ("int8",), "four bfloat16": ()}
FOUR = 4


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train apart, by every choice under every limit, and apart again; first in float32."""
    if (os.cpu_count() or 1) < 2:
        raise UserFault("two containers of a core each need two cores", os.cpu_count(), "run it on a larger machine")
    image = scratch.image("network")
    scratch.say("the image")
    Multinode(scratch.directory, shared=True).run("--tag", image)
    two, four = Group(scratch, image), Group(scratch, image, FOUR)
    for number in scratch.rounds(runs):
        measure_type(two, figures, DTYPES[0], number)
        with figures.optional("trainings in bfloat16"):
            check_units(read_text("/proc/cpuinfo") or "")
            measure_type(two, figures, DTYPES[1], number)
            measure_type(four, figures, DTYPES[1], number)


def measure_type(group: Group, figures: Figures, dtype: str, number: int) -> None:
    """Train in a type; a limit and its choices alternate, so that a machine that gets slower favours none of them."""
    shape, kind = replace(SMALL, dtype=dtype), f"four {dtype}" if group.count == FOUR else dtype
    figures.add(f"apart {kind}", statistics.mean(group.apart(shape)))
    for rate in RATES:
        chosen = (*FEW, *MORE[kind]) if rate == RATES[-1] else FEW
        with figures.optional(f"a network with {rate or 'no limit'}, {kind}"):
            for choice in chosen if number % 2 == 0 else reversed(chosen):
                group.scratch.say(f"{kind}, {choice}, {rate or 'no limit'}, run {number + 1}")
                environ = {} if choice == "default" else {"MULTINODE_GRADIENTS": choice}
                seconds = step(group.together(shape.words, rate, environ))
                figures.add(name(kind, choice, rate), seconds)
    figures.add(f"apart {kind}", statistics.mean(group.apart(shape)))


def name(kind: str, choice: str, rate: str) -> str:
    """Return the name of the figure of a choice under a limit: `float32 off 1gbit`."""
    return f"{kind} {choice} {rate or 'unlimited'}"
