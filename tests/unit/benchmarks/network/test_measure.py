"""What is kept of two containers with less of a network: all that the page and the promises name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast
from unittest import mock

from benchmarks.figures.measured import Figures
from benchmarks.figures.promises import KEPT, PROMISES, SHOWN, verdict
from benchmarks.network.measure import DTYPES, FOUR, measure_type
from benchmarks.report.rows import NETWORK
from benchmarks.settings.pair import Group, Shape
from images.host.errors import WorldFault

# What is chosen by nobody: rows that a page leaves out.
NEVER = [f"four bfloat16 {choice} 300mbit" for choice in ("bf16", "int8")]


class Containers:
    """Some containers; less of a network, and plain DDP, take longer."""

    scratch = mock.Mock()

    def __init__(self, count: int, *, limited: bool) -> None:
        self.count, self.limited = count, limited

    def apart(self, shape: Shape) -> list[float]:
        return [0.9, 1.0]

    def together(self, words: Sequence[str], rate: str, environ: Mapping[str, str]) -> str:
        if rate and not self.limited:
            raise WorldFault("a command failed", "tc", "run it as root")
        seconds = 1.0 + bool(rate) / 20 + len(environ)
        return json.dumps({"steps": [9.0, 9.0, seconds]})


def measured(*, limited: bool = True) -> Figures:
    figures = Figures()
    two, four = (cast(Group, Containers(count, limited=limited)) for count in (2, FOUR))
    for number, dtype in enumerate(DTYPES):
        measure_type(two, figures, dtype, number)
    measure_type(four, figures, DTYPES[1], 0)
    return figures


def test_all_that_is_shown_is_measured() -> None:
    figures = measured()

    cells: list[Any] = [cell for table in NETWORK for row in table.rows for cell in row.cells if cell]
    shown = {name for cell in cells for name in ([cell] if isinstance(cell, str) else cell)}
    assert shown - set(figures.values) == {"bfloat16 bf16 300mbit", *NEVER} and set(figures.values) <= shown
    states = [verdict(each, figures).state for each in PROMISES if each.part == "network"]
    assert set(states) == {KEPT, SHOWN} and states.count(SHOWN) == 1  # for another processor


def test_without_a_limit_the_rest_is_measured_all_the_same() -> None:
    figures = measured(limited=False)

    assert {name for name in figures.values if "bit" in name} == set()
    assert {"apart float32", "four bfloat16 off unlimited"} <= set(figures.values) and len(figures.missing) == 9
