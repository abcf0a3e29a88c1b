"""What is kept of two containers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from benchmarks.figures.measured import Figures
from benchmarks.train.pair import SMALL, Shape, Two, compare, keep


class Slowing:
    """Two containers on a machine of which each training takes a second more than the one before."""

    def __init__(self) -> None:
        self.seconds: Iterator[float] = iter((10.0, 11.0, 12.0, 13.0))

    def apart(self, _: Shape) -> list[float]:
        return [next(self.seconds)] * 2

    def together(self, _: Sequence[str]) -> str:
        return json.dumps({"steps": [30.0, 20.0, next(self.seconds)]})


def test_the_slower_of_two_apart_is_kept_beside_their_mean() -> None:
    figures = Figures()

    keep(figures, "12x384", [2.0, 3.0], 4.0)

    values = {name: figures.median(name) for name in figures.values}
    assert values == {"apart 12x384": 2.5, "slower 12x384": 3.0, "together 12x384": 4.0, "share 12x384": 0.375}


def test_a_machine_that_gets_slower_favours_neither_side() -> None:
    figures = Figures()

    assert compare(figures, cast(Two, Slowing()), SMALL) == 11.5

    assert figures.ratio("apart 8x128", "together 8x128") == pytest.approx(1)
