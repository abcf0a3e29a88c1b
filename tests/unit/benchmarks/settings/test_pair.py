"""What is kept of two containers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from benchmarks.figures.measured import Figures
from benchmarks.settings.pair import SMALL, Group, Shape, compare


class Slowing:
    """Two containers on a machine of which each training takes a second more than the one before."""

    def __init__(self) -> None:
        self.seconds: Iterator[float] = iter((10.0, 11.0, 12.0, 13.0))

    def apart(self, _: Shape) -> list[float]:
        return [next(self.seconds)] * 2

    def together(self, _: Sequence[str]) -> str:
        return json.dumps({"steps": [30.0, 20.0, next(self.seconds)]})


def test_a_machine_that_gets_slower_favours_neither_side() -> None:
    figures = Figures()

    assert compare(figures, cast(Group, Slowing()), SMALL) == 11.5

    assert figures.ratio("apart 8x128", "together 8x128") == pytest.approx(1)
