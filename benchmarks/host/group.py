"""Containers with a core each, or a share of one: training together, and at the same time apart."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.host.commands import ROOT
from benchmarks.host.containers import CORES, Ranks, Setting, limit, outcome, started, together
from benchmarks.host.scratch import Scratch

PROGRAMS = ROOT / "benchmarks/programs"
STEPS, TURNS = PROGRAMS / "steps.py", PROGRAMS / "turns.py"
PLACE = "/benchmark/program.py"
WARM = 2  # steps that reserve memory and choose kernels, and are not counted
MOST = 300.0  # seconds of a training


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
            containers = [
                stack.enter_context(
                    started(
                        self.scratch, self.image, [PLACE, *shape.words], Setting(limits, mounts={self.script: PLACE})
                    )
                )
                for limits in Ranks(self.count).limits()
            ]
            return [read_step(outcome(container, self.most)) for container in containers]

    def together(self, words: Sequence[str], rate: str = "", environ: Mapping[str, str] | None = None) -> str:
        """Train as one job and return what rank 0 printed.

        rate: one of BUCKETS, for all interfaces; environ: variables of all ranks.
        """
        mounts = {**self.given.mounts, self.script: PLACE}
        given = Setting(environ={**self.given.environ, **(environ or {})}, mounts=mounts)
        return together(self.scratch, self.image, [PLACE, *words], given, self.most, Ranks(self.count, limit(rate)))


def read_step(text: str) -> float:
    """Return the median seconds of a step in the last line of steps.py, the first ones left out."""
    return float(statistics.median(json.loads(text.strip().splitlines()[-1])["steps"][WARM:]))
