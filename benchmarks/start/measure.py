"""The part `start`: what the entrypoint adds to a command, and the way to the first step of a training."""

from __future__ import annotations

import os

from benchmarks.build import clients, context
from benchmarks.build.against import RELEASES
from benchmarks.build.context import Recipe
from benchmarks.build.ours import Ours
from benchmarks.figures.measured import Figures
from benchmarks.host.workshop import Workshop
from benchmarks.image.measure import prepare
from benchmarks.start import entrypoint, first_step

RUNS = 7


def measure(workshop: Workshop, figures: Figures, runs: int) -> None:
    """Build three images with the same packages and start each of them in turn."""
    ours = Ours(workshop.directory, shared=True)
    with_bytecode, without = workshop.image("bytecode"), workshop.image("plain")
    workshop.say("images: with bytecode, without, the Dockerfile's")
    ours.run("--bytecode", "--tag", with_bytecode)
    ours.run("--no-bytecode", "--tag", without)
    ours.build(RELEASES[0])
    recipe = Recipe(context.EXPERT, prepare(workshop, ours), workshop.image("base"), workshop.label, "--compile")
    recipe.build(clients.find(os.environ)[0], workshop.image("expert"))
    workshop.say("true, with the entrypoint and without")
    entrypoint.measure(workshop, figures, with_bytecode, 4 * runs + 3)
    images = {"with bytecode": with_bytecode, "without bytecode": without, "expert": workshop.image("expert")}
    for number in workshop.rounds(runs + 1):
        workshop.say(f"first step, {number} of {runs}")
        for name, image in images.items():
            seconds = first_step.seconds(workshop, image, "" if name != "expert" else "python3")
            if number:  # what the first run reads from the disk, the others find in memory
                figures.add(f"step {name}", seconds)
