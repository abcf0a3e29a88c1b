"""The part `train`: the real scripts against the guide's command, and bf16 on a processor that has no units for it."""

from __future__ import annotations

import os

from benchmarks.figures import Figures
from benchmarks.host.containers import run
from benchmarks.host.group import MOST
from benchmarks.host.scratch import Scratch
from benchmarks.sides import drawn, hidden_units
from benchmarks.sides.multinode import build_for_two
from benchmarks.sides.scripts import Trainings, compare_results, measure_speed, read_smoke
from multinode_image.machine.files import read_text
from multinode_image.machine.limits import has_bf16, read_flags

RUNS = 3
# A directory or an archive with the examples, where that of the release cannot be downloaded.
VARIABLE = "MULTINODE_EXAMPLES"
STEPS = ("--max_steps", "2000")
# Forth and back: a machine that gets slower meanwhile favours neither.
ORDER = ("float32", "asked", "asked", "float32", "emulated")
EMULATE = {"MULTINODE_BF16": "emulate"}


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train by both sides, then with bf16 that no unit computes."""
    image, data = build(scratch, "train"), scratch.directory / "data"
    data.mkdir()
    drawn.write_all(data)
    trainings = Trainings(scratch, image, data, choose_words(), os.cpu_count() or 1)
    measure_speed(trainings, figures, runs)
    compare_results(trainings, figures)
    measure_bf16(scratch, figures, image, runs)


def build(scratch: Scratch, part: str) -> str:
    """Build an image with the examples and return its name."""
    examples = os.environ.get(VARIABLE)
    return build_for_two(scratch, part, ("--base", "debian", *(("--examples", examples) if examples else ())))


def choose_words() -> str:
    """Return what is added to all trainings here."""
    return "--bf16" if has_bf16(read_flags(read_text("/proc/cpuinfo") or "")) else ""


def measure_bf16(scratch: Scratch, figures: Figures, image: str, runs: int) -> None:
    """Train `smoke` without units for bf16: in float32, with `--bf16`, which then does so too, and emulated."""
    for number in scratch.rounds(runs):
        for name in ORDER:
            scratch.say(f"without units for bf16, {name}, {number + 1} of {runs}")
            given = hidden_units.hide(scratch.directory, EMULATE if name == "emulated" else {})
            flags = () if name == "float32" else ("--bf16",)
            figures.add(
                f"without units {name}", read_smoke(run(scratch, image, ["smoke", *flags, *STEPS], given, MOST))
            )
