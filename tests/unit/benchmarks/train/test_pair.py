"""What is kept of two containers."""

from __future__ import annotations

from benchmarks.figures.measured import Figures
from benchmarks.train.pair import keep


def test_the_slower_of_two_apart_is_kept_beside_their_mean() -> None:
    figures = Figures()

    keep(figures, "12x384", [2.0, 3.0], 4.0)

    values = {name: figures.median(name) for name in figures.values}
    assert values == {"apart 12x384": 2.5, "slower 12x384": 3.0, "together 12x384": 4.0, "share 12x384": 0.375}
