"""The part `settings`: a step of training, tuned, untuned and as the guide does it, alone and in two containers.

Models have random weights, so nothing is downloaded.
"""

from __future__ import annotations

import itertools
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.figures import Figures
from benchmarks.host.containers import Setting, run
from benchmarks.host.group import LARGE, MOST, PLACE, SMALL, STEPS, WARM, Group, Shape, read_step
from benchmarks.host.machine import check_units
from benchmarks.host.scratch import Scratch
from benchmarks.sides.multinode import build_for_two
from benchmarks.sides.scripts import GUIDE, read_smoke
from multinode_image.machine.files import read_text

RUNS = 2
# What is trained in a scene: `smoke`, or the model of DistilBERT's size in a type.
MODELS: Mapping[str, str] = {"smoke": "", "distilbert": "bfloat16", "float32": "float32"}
MODES = ("tuned", "untuned", "guide")


@dataclass(frozen=True)
class Scene:
    """A limit: its share of the machine's cores, by a quota of CPU time or by a set of cores; what is trained there."""

    name: str
    share: float = 1.0
    is_set: bool = False
    models: tuple[str, ...] = ("distilbert",)

    def limits(self, cores: int) -> tuple[str, ...]:
        """Return the options of `docker run` on a machine."""
        if self.is_set:
            return ("--cpuset-cpus", f"0-{self.size(cores) - 1}")
        return () if self.share == 1 else ("--cpus", f"{cores * self.share:g}")

    def size(self, cores: int) -> int:
        """Return how many cores a person would count: those of the limit, rounded up."""
        return max(1, math.ceil(cores * self.share))


SCENES: Sequence[Scene] = (
    Scene("unlimited", models=("smoke", "distilbert", "float32")),
    Scene("half", 0.5, models=("smoke", "distilbert")),
    Scene("quarter", 0.25),
    Scene("three quarters", 0.75),
    Scene("half set", 0.5, is_set=True, models=("smoke", "distilbert")),
)


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train alone in all scenes, and in two containers."""
    image = build_for_two(scratch, "settings")
    with figures.optional("trainings in bfloat16"):
        check_units(read_text("/proc/cpuinfo") or "")
        measure_scenes(scratch, figures, image, runs)
        measure_pair(Group(scratch, image), figures, runs)


def measure_scenes(scratch: Scratch, figures: Figures, image: str, runs: int) -> None:
    """Train in every scene and mode in turn."""
    for _, scene, mode in itertools.product(scratch.rounds(runs), SCENES, MODES):
        scratch.say(f"alone, {scene.name}, {mode}")
        given = give(scene, mode, os.cpu_count() or 1)
        for model in scene.models:
            figures.add(f"{model} {scene.name} {mode}", train(scratch, image, given, MODELS[model]))


def give(scene: Scene, mode: str, cores: int) -> Setting:
    """Return what a container is given; untuned and the guide's run Python without the entrypoint."""
    environ = {**GUIDE, "OMP_NUM_THREADS": str(scene.size(cores))} if mode == "guide" else {}
    return Setting(scene.limits(cores), environ, {STEPS: PLACE}, "" if mode == "tuned" else "python3")


def train(scratch: Scratch, image: str, given: Setting, dtype: str) -> float:
    """Return the seconds of the loop of `smoke`, or of a step of the large model in a type, 8 x 128."""
    if not dtype:
        script = "/opt/multinode/smoke.py" if given.entrypoint else "smoke"
        return read_smoke(run(scratch, image, [script, "--bf16"], given, MOST))
    return read_step(run(scratch, image, [PLACE, "--steps", str(WARM + 3), "--dtype", dtype], given, MOST))


def measure_pair(two: Group, figures: Figures, runs: int) -> None:
    """Train both shapes in two containers of a core each."""
    for number, shape in itertools.product(two.scratch.rounds(runs), (LARGE, SMALL)):
        two.scratch.say(f"two containers, {shape.name}, {number + 1} of {runs}")
        compare(figures, two, shape)


def compare(figures: Figures, two: Group, shape: Shape) -> None:
    """Train apart, together, together, apart: a machine that gets slower meanwhile favours neither side."""
    before, first = two.apart(shape), read_step(two.together(shape.words))
    second, after = read_step(two.together(shape.words)), two.apart(shape)
    for apart, together in ((before, first), (after, second)):
        mean = statistics.mean(apart)
        figures.add(f"apart {shape.name}", mean)
        figures.add(f"together {shape.name}", together)
        figures.add(f"share {shape.name}", 1 - mean / together, "ratio")
