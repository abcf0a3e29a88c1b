"""The part `train`: the real scripts against the guide's command, and bf16 on a processor that has no units for it."""

from __future__ import annotations

import os

from benchmarks.figures.measured import Figures
from benchmarks.host.scratch import Scratch
from benchmarks.sides.multinode import Multinode
from benchmarks.train import bf16, drawn
from benchmarks.train.scripts import Trainings, compare_results, measure_speed
from images.host.errors import UserFault
from multinode_image.machine.files import read_text
from multinode_image.machine.limits import has_bf16, read_flags

RUNS = 3
# A directory or an archive with the examples, where that of the release cannot be downloaded.
VARIABLE = "MULTINODE_EXAMPLES"


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train by both sides, then with bf16 that no unit computes."""
    cores = os.cpu_count() or 1
    image, data = build(scratch, "train", cores), scratch.directory / "data"
    data.mkdir()
    drawn.write_all(data)
    trainings = Trainings(scratch, image, data, choose_words(), cores)
    measure_speed(trainings, figures, runs)
    compare_results(trainings, figures)
    bf16.measure(scratch, figures, image, runs, read_text("/proc/cpuinfo") or "")


def build(scratch: Scratch, tag: str, cores: int) -> str:
    """Build an image with the examples and return its name; raise UserFault on a machine without two cores."""
    if cores < 2:
        raise UserFault("two containers of a core each need two cores", cores, "run it on a larger machine")
    image, examples = scratch.image(tag), os.environ.get(VARIABLE)
    scratch.say("the image")
    Multinode(scratch.directory, shared=True).run("--tag", image, *(("--examples", examples) if examples else ()))
    return image


def choose_words() -> str:
    """Return what is added to all trainings here."""
    return "--bf16" if has_bf16(read_flags(read_text("/proc/cpuinfo") or "")) else ""
