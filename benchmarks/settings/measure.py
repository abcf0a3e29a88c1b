"""The part `settings`: seconds of a step, with models of random weights, so without a network."""

from __future__ import annotations

import os

from benchmarks.figures.measured import Figures
from benchmarks.host.machine import field
from benchmarks.host.scratch import Scratch
from benchmarks.settings import oneccl, pair, scenes
from benchmarks.sides.multinode import Multinode
from images.host.errors import UserFault
from multinode_image.machine.files import read_text
from multinode_image.machine.limits import BF16_UNITS, has_bf16, read_flags

RUNS = 2


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train alone in all scenes, in two containers, and with oneCCL."""
    cores = os.cpu_count() or 1
    if cores < 2:
        raise UserFault("two containers of a core each need two cores", cores, "run it on a larger machine")
    image = scratch.image("settings")
    scratch.say("the image")
    Multinode(scratch.directory, shared=True).run("--tag", image)
    cpuinfo = read_text("/proc/cpuinfo") or ""
    with figures.optional("trainings in bfloat16"):
        check_units(cpuinfo)
        scenes.measure(scratch, figures, image, cores, runs)
        pair.measure(scratch, figures, image, runs)
        oneccl.measure(scratch, figures, min(runs, 1))


def check_units(cpuinfo: str) -> None:
    """Raise UserFault where a step of the large model in bfloat16 takes minutes."""
    if not has_bf16(read_flags(cpuinfo)):
        remedy = f"run it on a processor with one of {', '.join(BF16_UNITS)}"
        raise UserFault("steps in bfloat16 take minutes here", field(cpuinfo, "model name"), remedy)
