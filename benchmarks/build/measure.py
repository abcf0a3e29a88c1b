"""The part `build`."""

from __future__ import annotations

from benchmarks.build import against, alone
from benchmarks.figures.measured import Figures
from benchmarks.host.scratch import Scratch
from benchmarks.sides.multinode import Multinode

RUNS = 3


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Measure our build by itself and against Dockerfiles."""
    multinode = Multinode(scratch.directory)
    alone.measure(scratch, figures, multinode, runs)
    against.measure(scratch, figures, multinode, runs)
