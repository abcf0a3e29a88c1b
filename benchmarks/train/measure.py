"""The part `train`: seconds of a step, with models of random weights, so without a network."""

from __future__ import annotations

import os

from benchmarks.build.ours import Ours
from benchmarks.figures.measured import Figures
from benchmarks.host.machine import field
from benchmarks.host.workshop import Workshop
from benchmarks.train import oneccl, pair, scenes
from entrypoint.container.files import read_text
from entrypoint.container.limits import BF16_UNITS, has_bf16, read_flags
from images.host.errors import UserFault

RUNS = 2


def measure(workshop: Workshop, figures: Figures, runs: int) -> None:
    """Train alone in all scenes, then in two containers, then with oneCCL."""
    cores = os.cpu_count() or 1
    if cores < 2:
        raise UserFault("two containers of a core each need two cores", cores, "run it on a larger machine")
    cpuinfo = read_text("/proc/cpuinfo")
    if not has_bf16(read_flags(cpuinfo)):
        remedy = f"run it on a processor with one of {', '.join(BF16_UNITS)}"
        raise UserFault("steps in bfloat16 take minutes here", field(cpuinfo or "", "model name"), remedy)
    image = workshop.image("train")
    workshop.say("the image")
    Ours(workshop.directory, shared=True).run("--tag", image)
    scenes.measure(workshop, figures, image, cores, runs)
    pair.measure(workshop, figures, image, runs)
    pair.converge(workshop, figures, image)
    oneccl.measure(workshop, figures, min(runs, 1))
