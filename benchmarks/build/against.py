"""Our build against Dockerfiles, from the same wheels on the same base."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures.measured import Figures
from benchmarks.host.commands import call
from benchmarks.host.images import remove_image, unpacked_size
from benchmarks.host.scratch import Scratch
from benchmarks.sides import clients, dockerfile, registry, releases
from benchmarks.sides.clients import Client
from benchmarks.sides.dockerfile import Debian
from benchmarks.sides.multinode import WHOLE, Multinode

ROWS = ("first", "next")
# Neither side ships bytecode or examples. Two tasks are left out: they need packages without a wheel, and pip would run
# the code of those.
TASKS = "language-modeling,multiple-choice,question-answering,text-classification,text-generation,translation"
OPTIONS = (*WHOLE, "--no-bytecode", "--tasks", TASKS)


@dataclass(frozen=True)
class Side:
    """A Dockerfile and the client that builds it, with the contexts of both releases."""

    name: str
    file: Path
    client: Client
    contexts: tuple[Path, ...]

    @property
    def tag(self) -> str:
        """Return its name as a part of a tag."""
        return self.name.replace(" ", "-")


@dataclass(frozen=True)
class Bench:
    """What every run needs."""

    scratch: Scratch
    figures: Figures
    multinode: Multinode
    releases: tuple[str, str]

    def sides(self, contexts: tuple[Path, ...]) -> list[Side]:
        """Return the expert's Dockerfile by every client, and the guide's by the first."""
        known = clients.find(os.environ)
        self.figures.facts["clients"] = {f"expert{client.suffix}": client.title for client in known}
        experts = [Side(f"expert{client.suffix}", dockerfile.EXPERT, client, contexts) for client in known]
        return [*experts, Side("guide", dockerfile.GUIDE, known[0], contexts)]


def measure(scratch: Scratch, figures: Figures, multinode: Multinode, runs: int) -> None:
    """Build all ways in turn, each time from nothing but the downloaded parts, then once more with a new release.

    Multinode builds before and after the Dockerfiles, so a machine that gets slower meanwhile favours neither. The
    guide's Dockerfile is built in the first run only: it takes the longest, and no promise is about it.
    """
    bench = Bench(scratch, figures, Multinode(multinode.work, OPTIONS), releases.choose())
    scratch.say("preparing: two releases, their wheels, the base")
    builds = [bench.multinode.build(release) for release in bench.releases]
    versions, work = bench.releases, multinode.work
    contexts = tuple(dockerfile.lay_out(work / f"context-{one}", bench.multinode.bundle(one)) for one in versions)
    dockerfile.load_base(bench.multinode.lowest(bench.releases[0]), multinode.work, scratch.image("base"))
    figures.add("ours unpacked", builds[0]["unpacked"], "bytes")
    for number in scratch.rounds(runs):
        run_multinode(bench, f"run {number + 1} of {runs}: multinode")
        for side in bench.sides(contexts):
            if number == 0 or side.name != "guide":
                run_theirs(bench, side, number)
        run_multinode(bench, f"run {number + 1} of {runs}: multinode again")


def run_multinode(bench: Bench, shown: str) -> None:
    """Build both releases, then build and push both, by one command each."""
    commands = [(*bench.multinode.options, "--transformers", release, "--no-load") for release in bench.releases]
    bench.scratch.say(shown)
    bench.multinode.forget()
    built = [bench.multinode.timed(*command) for command in commands]
    bench.multinode.forget()
    with registry.running(bench.multinode.work) as address:
        for row, release, command, seconds in zip(ROWS, bench.releases, commands, built, strict=True):
            bench.scratch.say(f"{shown}, {row}, with the push")
            before = registry.stored(bench.multinode.work)
            pushed = bench.multinode.timed(*command, "--push", f"{address}/ours:{release}")
            sizes = sum(registry.layers(address, "ours", release)), registry.stored(bench.multinode.work) - before
            keep(bench.figures, f"ours {row}", (seconds, pushed), sizes)


def run_theirs(bench: Bench, side: Side, number: int) -> None:
    """Build a Dockerfile for both releases into the engine and push from there."""
    work = bench.multinode.work
    with registry.running(work) as address:
        for row, place in zip(ROWS, side.contexts, strict=True):
            bench.scratch.say(f"run {number + 1}: Dockerfile ({side.name}), {row}")
            dockerfile.mark(place, number)
            tag, kept = f"{address}/theirs:{place.name}", bench.scratch.image(f"{side.tag}-{row}")
            recipe = Debian(side.file, place, bench.scratch.image("base"), bench.scratch.label)
            began, before = time.monotonic(), registry.stored(work)
            recipe.build(side.client, tag, kept)
            built = time.monotonic() - began
            try:
                call([side.client.path, "push", "--quiet", tag])
            finally:
                remove_image(tag)
            seconds = (built, time.monotonic() - began)
            sizes = sum(registry.layers(address, "theirs", place.name)), registry.stored(work) - before
            keep(bench.figures, f"{side.name} {row}", seconds, sizes)
    bench.figures.add(f"{side.name} unpacked", unpacked_size(bench.scratch.image(f"{side.tag}-first")), "bytes")
    for row in ROWS:
        remove_image(bench.scratch.image(f"{side.tag}-{row}"))


def keep(figures: Figures, name: str, seconds: tuple[float, float], sizes: tuple[int, int]) -> None:
    """Keep a build's seconds until it can be pushed and until it is, its compressed bytes, and those that were sent."""
    for field, value in zip(("built", "pushed"), seconds, strict=True):
        figures.add(f"{name} {field}", value)
    for field, size in zip(("size", "sent"), sizes, strict=True):
        figures.add(f"{name} {field}", size, "bytes")
