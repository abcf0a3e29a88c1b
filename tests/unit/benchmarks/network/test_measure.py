"""What is kept of two containers with less of a network: all that the page and the promises name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast
from unittest import mock

from benchmarks.figures.measured import Figures
from benchmarks.figures.promises import KEPT, PROMISES, verdict
from benchmarks.network.measure import DTYPES, measure_type
from benchmarks.report.rows import NETWORK
from benchmarks.settings.pair import Shape, Two
from images.host.errors import WorldFault


class Pair:
    """Two containers; less of a network, and plain DDP, take longer."""

    scratch = mock.Mock()

    def __init__(self, *, limited: bool = True) -> None:
        self.limited = limited

    def apart(self, shape: Shape) -> list[float]:
        return [0.9, 1.0]

    def together(self, words: Sequence[str], rate: str, environ: Mapping[str, str]) -> str:
        if rate and not self.limited:
            raise WorldFault("a command failed", "tc", "run it as root")
        seconds = 1.0 + bool(rate) / 20 + len(environ)
        return json.dumps({"steps": [9.0, 9.0, seconds]})


def measured(pair: Pair) -> Figures:
    figures = Figures()
    for number, dtype in enumerate(DTYPES):
        measure_type(cast(Two, pair), figures, dtype, number)
    return figures


def test_all_that_is_shown_is_measured() -> None:
    figures = measured(Pair())

    cells: list[Any] = [cell for row in NETWORK[0].rows for cell in row.cells if cell]
    assert {name for cell in cells for name in ([cell] if isinstance(cell, str) else cell)} == set(figures.values)
    assert [verdict(each, figures).state for each in PROMISES if each.part == "network"] == [KEPT] * 4


def test_without_a_limit_the_rest_is_measured_all_the_same() -> None:
    figures = measured(Pair(limited=False))

    assert {name for name in figures.values if "bit" in name} == set()
    assert {"apart float32", "bfloat16 off unlimited"} <= set(figures.values) and len(figures.missing) == 4
