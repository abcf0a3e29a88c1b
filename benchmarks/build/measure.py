"""The part `build`."""

from __future__ import annotations

from benchmarks.build import against, alone
from benchmarks.build.ours import Ours
from benchmarks.figures.measured import Figures
from benchmarks.host.workshop import Workshop

RUNS = 3


def measure(workshop: Workshop, figures: Figures, runs: int) -> None:
    """Measure our build by itself and against Dockerfiles."""
    ours = Ours(workshop.directory)
    alone.measure(workshop, figures, ours, runs)
    against.measure(workshop, figures, ours, runs)
