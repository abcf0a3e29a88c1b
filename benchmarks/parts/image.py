"""The part `image`: sizes with and without bytecode, and of each layer, against the expert's Dockerfile."""

from __future__ import annotations

from benchmarks.figures import Figures
from benchmarks.host.commands import call
from benchmarks.host.containers import remove_image, unpacked_size
from benchmarks.host.scratch import Scratch
from benchmarks.sides import dockerfile, registry
from benchmarks.sides.dockerfile import Debian
from benchmarks.sides.multinode import Multinode, choose_releases

RUNS = 1  # sizes are the same in every run
# What build.py and pip are told about bytecode.
KINDS = {"with bytecode": ("--bytecode", "--compile"), "without bytecode": ("--no-bytecode", "--no-compile")}


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Measure the image for all text tasks.

    The Dockerfile's has two small packages less: they have no wheel, and pip would run their code to make one.
    """
    multinode, release = Multinode(scratch.directory, shared=True), choose_releases()[0]
    for kind, (flag, _) in KINDS.items():
        scratch.say(f"multinode, {kind}")
        keep_multinode(figures, multinode.build(release, flag), kind)
    place = dockerfile.prepare(scratch, multinode, release)
    for kind, (_, word) in KINDS.items():
        scratch.say(f"Dockerfile, {kind}")
        keep_theirs(
            scratch, figures, Debian(dockerfile.EXPERT, place, scratch.image("base"), scratch.label, word), kind
        )


def keep_multinode(figures: Figures, built: dict[str, object], kind: str) -> None:
    """Keep the sizes of our image."""
    layers = built["layers"]
    assert isinstance(layers, list)
    figures.add(f"ours {kind}", sum(layer["size"] for layer in layers), "bytes")
    figures.add(f"ours unpacked {kind}", int(str(built["unpacked"])), "bytes")
    for layer in layers:
        figures.add(f"layer {layer['name']} {kind}", layer["size"], "bytes")


def keep_theirs(scratch: Scratch, figures: Figures, recipe: Debian, kind: str) -> None:
    """Build the Dockerfile's image, push it to an empty registry, and keep its sizes."""
    kept = scratch.image(kind.replace(" ", "-"))
    with registry.running(scratch.directory) as address:
        tag = f"{address}/theirs:1"
        recipe.build(tag, kept)
        try:
            call(["docker", "push", "--quiet", tag])
            sizes = registry.layers(address, "theirs", "1")
        finally:
            remove_image(tag)
    figures.add(f"expert {kind}", sum(sizes), "bytes")
    figures.add(f"expert unpacked {kind}", unpacked_size(kept), "bytes")
