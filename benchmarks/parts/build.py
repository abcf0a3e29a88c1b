"""The part `build`: our build by itself, and against Dockerfiles from the same wheels on the same base."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.host.commands import build_py, call
from benchmarks.host.containers import remove_image, unpacked_size
from benchmarks.host.memory import peak_of
from benchmarks.host.scratch import Scratch
from benchmarks.sides import dockerfile, registry
from benchmarks.sides.dockerfile import Debian
from benchmarks.sides.multinode import WHOLE, Multinode, choose_releases

RUNS = 3
ROWS = ("first", "next")
DOCKERFILES = {"expert": dockerfile.EXPERT, "guide": dockerfile.GUIDE}
SHORT = {"help": ("--help",), "plan": ("plan",)}
# Seconds for which ext4 without a journal gives out no inode of a deleted file (fs/ext4/ialloc.c, RECENTCY_MIN): for
# every new file it looks at each of them, which made builds a tenth slower. Nothing tells when that ends.
FORGOTTEN = 60
# Neither side ships bytecode or examples. Two tasks are left out: they need packages without a wheel, and pip would run
# the code of those.
TASKS = "language-modeling,multiple-choice,question-answering,text-classification,text-generation,translation"
OPTIONS = (*WHOLE, "--no-bytecode", "--tasks", TASKS)


@dataclass(frozen=True)
class Bench:
    """What every run needs."""

    scratch: Scratch
    figures: Figures
    multinode: Multinode
    releases: tuple[str, str]


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Measure our build by itself and against Dockerfiles."""
    multinode = Multinode(scratch.directory)
    measure_alone(scratch, figures, multinode, runs)
    compare(scratch, figures, multinode, runs)


def measure_alone(scratch: Scratch, figures: Figures, multinode: Multinode, runs: int) -> None:
    """Build from an empty store, at most twice, then again and again with nothing to do."""
    tag = ("--tag", scratch.image("ours"))
    scratch.say("memory, from an empty store")
    figures.add("memory", peak_of(build_py(*multinode.options, *tag), multinode.environ), "bytes")
    for number in range(min(runs, 2)):
        scratch.say(f"from nothing, {number + 1} of {min(runs, 2)}")
        multinode = replace(multinode, work=scratch.directory / f"nothing-{number}")
        multinode.work.mkdir()
        remove_image(scratch.image("ours"))
        os.sync()
        time.sleep(FORGOTTEN)
        figures.add("from nothing", multinode.timed(*multinode.options, *tag))
    scratch.say("nothing to do, help, plan")
    for _ in range(2 * runs + 1):
        figures.add("nothing to do", multinode.timed(*multinode.options, *tag))
        for name, words in SHORT.items():
            figures.add(name, multinode.timed(*words))


def compare(scratch: Scratch, figures: Figures, multinode: Multinode, runs: int) -> None:
    """Build all ways in turn, each time from nothing but the downloaded parts, then once more with a new release.

    Multinode builds before and after the Dockerfiles, so a machine that gets slower meanwhile favours neither. The
    guide's Dockerfile is built in the first run only: it takes the longest, and no promise is about it.
    """
    bench = Bench(scratch, figures, Multinode(multinode.work, OPTIONS), choose_releases())
    scratch.say("preparing: two releases, their wheels, the base")
    builds = [bench.multinode.build(release) for release in bench.releases]
    versions, work = bench.releases, multinode.work
    contexts = tuple(dockerfile.lay_out(work / f"context-{one}", bench.multinode.bundle(one)) for one in versions)
    dockerfile.load_base(bench.multinode.lowest(bench.releases[0]), multinode.work, scratch.image("base"))
    figures.add("ours unpacked", builds[0]["unpacked"], "bytes")
    for number in scratch.rounds(runs):
        run_multinode(bench, f"run {number + 1} of {runs}: multinode")
        for side in DOCKERFILES if number == 0 else ("expert",):
            run_theirs(bench, side, contexts, number)
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


def run_theirs(bench: Bench, side: str, contexts: Sequence[Path], number: int) -> None:
    """Build a Dockerfile for both releases into the engine and push from there."""
    work = bench.multinode.work
    with registry.running(work) as address:
        for row, place in zip(ROWS, contexts, strict=True):
            bench.scratch.say(f"run {number + 1}: Dockerfile ({side}), {row}")
            dockerfile.mark(place, number)
            tag, kept = f"{address}/theirs:{place.name}", bench.scratch.image(f"{side}-{row}")
            recipe = Debian(DOCKERFILES[side], place, bench.scratch.image("base"), bench.scratch.label)
            began, before = time.monotonic(), registry.stored(work)
            recipe.build(tag, kept)
            built = time.monotonic() - began
            try:
                call(["docker", "push", "--quiet", tag])
            finally:
                remove_image(tag)
            seconds = (built, time.monotonic() - began)
            sizes = sum(registry.layers(address, "theirs", place.name)), registry.stored(work) - before
            keep(bench.figures, f"{side} {row}", seconds, sizes)
    bench.figures.add(f"{side} unpacked", unpacked_size(bench.scratch.image(f"{side}-first")), "bytes")
    for row in ROWS:
        remove_image(bench.scratch.image(f"{side}-{row}"))


def keep(figures: Figures, name: str, seconds: tuple[float, float], sizes: tuple[int, int]) -> None:
    """Keep a build's seconds until it can be pushed and until it is, its compressed bytes, and those that were sent."""
    for field, value in zip(("built", "pushed"), seconds, strict=True):
        figures.add(f"{name} {field}", value)
    for field, size in zip(("size", "sent"), sizes, strict=True):
        figures.add(f"{name} {field}", size, "bytes")
