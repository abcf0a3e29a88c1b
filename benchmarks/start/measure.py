"""The part `start`: what the entrypoint adds to a command, and the way to the first step of a training."""

from __future__ import annotations

import os

from benchmarks.figures.measured import Figures
from benchmarks.host.scratch import Scratch
from benchmarks.sides import clients, dockerfile, releases
from benchmarks.sides.dockerfile import Debian
from benchmarks.sides.multinode import Multinode
from benchmarks.start import entrypoint, first_step

RUNS = 7


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Build three images with the same packages and start each of them in turn."""
    multinode, release = Multinode(scratch.directory, shared=True), releases.choose()[0]
    with_bytecode, without = scratch.image("bytecode"), scratch.image("plain")
    scratch.say("images: with bytecode, without, the Dockerfile's")
    multinode.run("--bytecode", "--tag", with_bytecode)
    multinode.run("--no-bytecode", "--tag", without)
    multinode.build(release)
    place = dockerfile.prepare(scratch, multinode, release)
    recipe = Debian(dockerfile.EXPERT, place, scratch.image("base"), scratch.label, "--compile")
    recipe.build(clients.find(os.environ)[0], scratch.image("expert"))
    scratch.say("true, with the entrypoint and without")
    entrypoint.measure(scratch, figures, with_bytecode, 4 * runs + 3)
    images = {"with bytecode": with_bytecode, "without bytecode": without, "expert": scratch.image("expert")}
    for number in scratch.rounds(runs + 1):
        scratch.say(f"first step, {number} of {runs}")
        for name, image in images.items():
            seconds = first_step.seconds(scratch, image, "" if name != "expert" else "python3")
            if number:  # what the first run reads from the disk, the others find in memory
                figures.add(f"step {name}", seconds)
