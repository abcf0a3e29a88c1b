"""Two containers of a core each: training together, and at the same time apart."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures.measured import Figures
from benchmarks.host.commands import call
from benchmarks.host.containers import CORES, Ranks, Setting, outcome, process, run, started, together
from benchmarks.host.scratch import Scratch
from benchmarks.settings.scenes import MOST, PLACE, STEPS, WARM, step

# What a network is limited to, and the bucket: eight milliseconds, for the kernel's timer ticks at least every four.
BUCKETS: Mapping[str, str] = {"300mbit": "300kb", "1gbit": "1mb", "10gbit": "10mb"}


@dataclass(frozen=True)
class Shape:
    """The size of a batch, how many steps are measured, and in which type they compute."""

    batch: int
    length: int
    steps: int = 3
    dtype: str = "bfloat16"

    @property
    def name(self) -> str:
        """Return it as `8x128`."""
        return f"{self.batch}x{self.length}"

    @property
    def words(self) -> list[str]:
        """Return the words for steps.py."""
        sizes = ["--batch", str(self.batch), "--length", str(self.length)]
        return [*sizes, "--steps", str(WARM + self.steps), "--dtype", self.dtype]


LARGE, SMALL = Shape(12, 384), Shape(8, 128, 5)


@dataclass(frozen=True)
class Group:
    """An image of which some containers are started: two with a core each, or more with a share of one.

    script: what each runs; most: seconds that it may take; given: what each has besides, such as another processor.
    """

    scratch: Scratch
    image: str
    count: int = len(CORES)
    script: Path = STEPS
    most: float = MOST
    given: Setting = field(default_factory=Setting)

    def apart(self, shape: Shape) -> list[float]:
        """Return the seconds of a step of containers that train at the same time, each for itself."""
        with contextlib.ExitStack() as stack:
            limits = Ranks(self.count).limits()
            containers = [stack.enter_context(self._start(share, shape.words)) for share in limits]
            return [step(outcome(container, self.most)) for container in containers]

    def together(self, words: Sequence[str], rate: str = "", environ: Mapping[str, str] | None = None) -> str:
        """Train as one job and return what rank 0 printed.

        rate: one of BUCKETS, for all interfaces; environ: variables of all ranks.
        """
        mounts = {**self.given.mounts, self.script: PLACE}
        given = Setting(environ={**self.given.environ, **(environ or {})}, mounts=mounts)
        return together(self.scratch, self.image, [PLACE, *words], given, self.most, Ranks(self.count, limit(rate)))

    def alone(self, shape: Shape) -> float:
        """Return the seconds of a step of one container with both cores."""
        given = Setting(("--cpuset-cpus", ",".join(CORES)), mounts={self.script: PLACE})
        return step(run(self.scratch, self.image, [PLACE, *shape.words], given, self.most))

    def _start(self, limits: tuple[str, ...], words: Sequence[str]) -> contextlib.AbstractContextManager[str]:
        return started(self.scratch, self.image, [PLACE, *words], Setting(limits, mounts={self.script: PLACE}))


def limit(rate: str) -> Callable[[str], None]:
    """Return what limits what a container sends to a rate of BUCKETS, by a token bucket; nothing where rate is empty.

    The caller has to be root, the container needs no capability.
    """
    bucket = ("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", BUCKETS.get(rate, ""))

    def fill(container: str) -> None:
        if rate:
            call(["nsenter", "--target", str(process(container)), "--net", *bucket, "latency", "50ms"])

    return fill


def measure(scratch: Scratch, figures: Figures, image: str, runs: int) -> None:
    """Train both shapes apart and together in turn."""
    two = Group(scratch, image)
    for number in scratch.rounds(runs):
        for shape in (LARGE, SMALL):
            scratch.say(f"two containers, {shape.name}, {number + 1} of {runs}")
            seconds = compare(figures, two, shape)
        figures.add("one container 8x128", SMALL.batch / two.alone(SMALL), "samples/s")
        figures.add("two containers 8x128", 2 * SMALL.batch / seconds, "samples/s")


def compare(figures: Figures, two: Group, shape: Shape) -> float:
    """Train apart, together, together, apart: a machine that gets slower meanwhile favours neither side.

    Returns the mean seconds of a step together.
    """
    before, first = two.apart(shape), step(two.together(shape.words))
    second, after = step(two.together(shape.words)), two.apart(shape)
    keep(figures, shape.name, before, first)
    keep(figures, shape.name, after, second)
    return statistics.mean((first, second))


def keep(figures: Figures, name: str, apart: Sequence[float], together: float) -> None:
    """Keep the mean of those apart, and the share of a step that is spent on the other rank.

    The slower of the two tells how uneven the cores are: together, both train as fast as that one.
    """
    mean = statistics.mean(apart)
    figures.add(f"apart {name}", mean)
    figures.add(f"slower {name}", max(apart))
    figures.add(f"together {name}", together)
    figures.add(f"share {name}", 1 - mean / together, "ratio")
