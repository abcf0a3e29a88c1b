"""The estimate of memory, beside what was measured in containers."""

from __future__ import annotations

import pytest

from multinode_image.memory.estimate import Workload, estimate_rank
from multinode_image.memory.model import Model
from scripts.pages.memory import Peak, read_measured

MEASURED = read_measured()
MODEL = Model(110_000_000, 4, 768, 3072, 12, 12, 30522, 512, False, "", 0.1)


@pytest.mark.parametrize("peak", MEASURED.peaks, ids=str)
def test_it_is_near_what_was_measured(peak: Peak) -> None:
    assert MEASURED.estimate(peak) == pytest.approx(peak.measured, rel=0.1)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (Workload(8, 128, recomputes=True), Workload(8, 128)),
        (Workload(8, 128, optimizer="adafactor"), Workload(8, 128)),
        (Workload(8, 128), Workload(8, 128, several=True)),
        (Workload(8, 128), Workload(8, 128, accumulates=True)),
        (Workload(32, 128, bf16=True), Workload(32, 128)),
        (Workload(8, 128), Workload(16, 128)),
        (Workload(32, 128), Workload(8, 512)),
    ],
)
def test_what_takes_more(less: Workload, more: Workload) -> None:
    assert estimate_rank(MODEL, less) < estimate_rank(MODEL, more)
