"""The table of what ranks take of memory: measured in containers, and estimated as `--explain` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images.foreign.documents import parse_toml
from multinode_image.memory.estimate import Workload, estimate_rank
from multinode_image.memory.model import parse_model
from scripts.pages.tables import write_table

DATA = Path(__file__).resolve().parents[2] / "tests/data/memory.toml"


@dataclass(frozen=True)
class Peak:
    """The most memory that a rank has taken, in MB of 2^20 bytes; ranks: in one container."""

    model: str
    batch: int
    length: int
    bf16: bool
    ranks: int
    measured: int


@dataclass(frozen=True)
class Measured:
    """The configurations of models by their names, and what was measured of them."""

    models: Mapping[str, Mapping[str, Any]]
    peaks: Sequence[Peak]

    def estimate(self, peak: Peak) -> int:
        """Return what `--explain` says of the same, in MB."""
        model = parse_model(self.models[peak.model])
        if model is None:
            raise ValueError(f"the shape of a model is not known: {peak.model}")
        training = Workload(peak.batch, peak.length, bf16=peak.bf16, several=peak.ranks > 1)
        return estimate_rank(model, training) >> 20


def read_measured() -> Measured:
    """Return what tests/data has."""
    document = parse_toml(DATA.read_text())
    return Measured(document["model"], [Peak(**row) for row in document["peak"]])


def table() -> list[str]:
    """Return a row for each model and batch: measured and estimated, in float32 and in bfloat16."""
    measured = read_measured()
    cells: dict[tuple[str, str], dict[bool, str]] = {}
    for peak in measured.peaks:
        ranks = f", {peak.ranks} ranks" if peak.ranks > 1 else ""
        text = f"{peak.measured / 1024:.2f} ({measured.estimate(peak) / 1024:.2f})"
        cells.setdefault((peak.model, f"{peak.batch} x {peak.length}{ranks}"), {})[peak.bf16] = text
    rows = [(*name, peaks.get(False, ""), peaks.get(True, "")) for name, peaks in cells.items()]
    return write_table(("model", "batch of a rank", "float32: GB measured (estimated)", "bfloat16"), rows)
