"""The part `image`: sizes with and without bytecode, and of each layer, against the expert's Dockerfile."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.build import clients, context, registry
from benchmarks.build.against import RELEASES, unpacked
from benchmarks.build.context import Recipe
from benchmarks.build.ours import Ours
from benchmarks.figures.measured import Figures
from benchmarks.host.commands import call
from benchmarks.host.workshop import Workshop, remove_image

RUNS = 1  # sizes are the same in every run
# What build.py and pip are told about bytecode.
KINDS = {"with bytecode": ("--bytecode", "--compile"), "without bytecode": ("--no-bytecode", "--no-compile")}


def measure(workshop: Workshop, figures: Figures, runs: int) -> None:
    """Measure the image for all text tasks.

    The Dockerfile's has two small packages less: they have no wheel, and pip would run their code to make one.
    """
    ours = Ours(workshop.directory, shared=True)
    for kind, (flag, _) in KINDS.items():
        workshop.say(f"multinode, {kind}")
        keep_ours(figures, ours.build(RELEASES[0], flag), kind)
    place = prepare(workshop, ours)
    for kind, (_, word) in KINDS.items():
        workshop.say(f"Dockerfile, {kind}")
        keep_theirs(
            workshop, figures, Recipe(context.EXPERT, place, workshop.image("base"), workshop.label, word), kind
        )


def prepare(workshop: Workshop, ours: Ours) -> Path:
    """Write the context of the Dockerfile and load its base; a layout of the release has to be there."""
    place = context.lay_out(ours.work / "context", ours.bundle(RELEASES[0]))
    context.mark(place, 0)
    context.load_base(ours.lowest(RELEASES[0]), ours.work, workshop.image("base"))
    return place


def keep_ours(figures: Figures, made: dict[str, object], kind: str) -> None:
    """Keep the sizes of our image."""
    layers = made["layers"]
    assert isinstance(layers, list)
    figures.add(f"ours {kind}", sum(layer["size"] for layer in layers), "bytes")
    figures.add(f"ours unpacked {kind}", int(str(made["unpacked"])), "bytes")
    for layer in layers:
        figures.add(f"layer {layer['name']} {kind}", layer["size"], "bytes")


def keep_theirs(workshop: Workshop, figures: Figures, recipe: Recipe, kind: str) -> None:
    """Build the Dockerfile's image, push it to an empty registry, and keep its sizes."""
    client = clients.find(os.environ)[0]
    kept = workshop.image(kind.replace(" ", "-"))
    with registry.running(workshop.directory) as address:
        tag = f"{address}/theirs:1"
        recipe.build(client, tag, kept)
        try:
            call([client.path, "push", "--quiet", tag])
            sizes = registry.layers(address, "theirs", "1")
        finally:
            remove_image(tag)
    figures.add(f"expert {kind}", sum(sizes), "bytes")
    figures.add(f"expert unpacked {kind}", unpacked(kept), "bytes")
    figures.facts[f"expert layers {kind}"] = sizes
