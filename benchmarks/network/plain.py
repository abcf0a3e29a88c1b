"""The part `network-plain`: the part `network` in float32, on a processor without units for bf16.

Where the processor has units, they are hidden. Beside that, larger batches of longer texts, which compute for longer
between two exchanges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.figures.measured import Figures
from benchmarks.host.scratch import Scratch
from benchmarks.network.measure import RATES, build_for, measure_kind, open_group
from benchmarks.train import bf16
from multinode_image.machine.files import read_text

RUNS = 1
FEW = ("", "1gbit")
KINDS: Mapping[str, Sequence[str]] = {"float32": RATES, "four float32": FEW, "long float32": FEW}


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train in float32 under each limit of a kind."""
    image = build_for(scratch, "network-plain")
    given = bf16.setting(read_text(bf16.CPUINFO) or "", scratch.directory / "cpuinfo", {})
    for number in scratch.rounds(runs):
        for kind, rates in KINDS.items():
            scratch.say(f"run {number + 1}, {kind}")
            measure_kind(open_group(scratch, image, kind, given), figures, kind, rates)
