"""The part `network`: two containers of a core each, with a limit of what each sends, and what ranks send chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.figures.measured import Figures
from benchmarks.host.scratch import Scratch
from benchmarks.settings.measure import check_units
from benchmarks.settings.pair import SMALL, Two
from benchmarks.settings.scenes import step
from benchmarks.sides.multinode import Multinode
from entrypoint.machine.files import read_text
from images.host.errors import UserFault

RUNS = 2
DTYPES = ("float32", "bfloat16")
# Of each limit, what is chosen: `default` is what nobody has chosen, `off` what DistributedDataParallel does itself.
CHOICES: Mapping[str, Sequence[str]] = {
    "": ("default", "off"),
    "1gbit": ("default", "off"),
    "300mbit": ("default", "off", "int8", "powersgd:4"),
}


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train apart, by every choice under every limit, and apart again; first in float32."""
    if (os.cpu_count() or 1) < 2:
        raise UserFault("two containers of a core each need two cores", os.cpu_count(), "run it on a larger machine")
    image = scratch.image("network")
    scratch.say("the image")
    Multinode(scratch.directory, shared=True).run("--tag", image)
    two = Two(scratch, image)
    for number in scratch.rounds(runs):
        measure_type(two, figures, DTYPES[0], number)
        with figures.optional("trainings in bfloat16"):
            check_units(read_text("/proc/cpuinfo") or "")
            measure_type(two, figures, DTYPES[1], number)


def measure_type(two: Two, figures: Figures, dtype: str, number: int) -> None:
    """Train in a type; a limit and its choices alternate, so that a machine that gets slower favours none of them."""
    shape = replace(SMALL, dtype=dtype)
    figures.add(f"apart {dtype}", sum(two.apart(shape)) / 2)
    for rate, choices in CHOICES.items():
        with figures.optional(f"a network with {rate or 'no limit'}, {dtype}"):
            for choice in choices if number % 2 == 0 else reversed(choices):
                two.scratch.say(f"{dtype}, {choice}, {rate or 'no limit'}, run {number + 1}")
                environ = {} if choice == "default" else {"MULTINODE_GRADIENTS": choice}
                seconds = step(two.together(shape.words, rate, environ))
                figures.add(name(dtype, choice, rate), seconds)
    figures.add(f"apart {dtype}", sum(two.apart(shape)) / 2)


def name(dtype: str, choice: str, rate: str) -> str:
    """Return the name of the figure of a choice under a limit: `float32 off 1gbit`."""
    return f"{dtype} {choice} {rate or 'unlimited'}"
