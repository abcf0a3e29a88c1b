"""What is kept of containers with less of a network: all that the page and the promises name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast
from unittest import mock

from benchmarks.figures.measured import Figures
from benchmarks.figures.promises import KEPT, PROMISES, SHOWN, verdict
from benchmarks.network import plain
from benchmarks.network.measure import KINDS, measure_kind
from benchmarks.report.rows import NETWORK, NETWORK_PLAIN
from benchmarks.settings.pair import Group
from images.host.errors import WorldFault

OPTIONS = 8  # words before the ways
SECONDS = {"apart": 1.0, "off": 2.0}


class Containers:
    """Some containers; less of a network, and plain DDP, take longer, and the first two steps of all."""

    scratch = mock.Mock()

    def __init__(self, *, limited: bool) -> None:
        self.limited = limited

    def together(self, words: Sequence[str], rate: str) -> str:
        if rate and not self.limited:
            raise WorldFault("a command failed", "tc", "run it as root")
        steps = {way: [99.0, 99.0, SECONDS.get(way, 1.0 + bool(rate) / 20)] for way in words[OPTIONS:]}
        return f"a line of the training\n{json.dumps(steps)}\n"


def measured(*, limited: bool = True) -> Figures:
    figures = Figures()
    for kind in KINDS:
        measure_kind(cast(Group, Containers(limited=limited)), figures, kind)
    return figures


def test_all_that_is_shown_is_measured() -> None:
    figures = measured()

    cells: list[Any] = [cell for table in NETWORK for row in table.rows for cell in row.cells if cell]
    shown = {name for cell in cells for name in ([cell] if isinstance(cell, str) else cell)}
    # What is sent by default in bfloat16, and rows of the page that four containers leave out.
    never = {"bfloat16 bf16 300mbit", "four bfloat16 bf16 300mbit", "four bfloat16 int8 300mbit"}
    assert shown - set(figures.values) == never and set(figures.values) <= shown
    states = [verdict(each, figures).state for each in PROMISES if each.part == "network"]
    assert set(states) == {KEPT, SHOWN} and states.count(SHOWN) == 1  # for another processor


def test_all_that_is_shown_of_a_plain_processor_is_measured() -> None:
    figures = Figures()
    for kind, rates in plain.KINDS.items():
        measure_kind(cast(Group, Containers(limited=True)), figures, kind, rates)

    cells: list[Any] = [cell for table in NETWORK_PLAIN for row in table.rows for cell in row.cells if cell]
    shown = {name for cell in cells for name in ([cell] if isinstance(cell, str) else cell)}
    assert shown == set(figures.values)
    assert {verdict(each, figures).state for each in PROMISES if each.part == "network-plain"} == {KEPT}


def test_without_a_limit_the_rest_is_measured_all_the_same() -> None:
    figures = measured(limited=False)

    assert {name for name in figures.values if "bit" in name} == set()
    assert {"float32 apart unlimited", "four bfloat16 off unlimited"} <= set(figures.values)
    assert len(figures.missing) == 9
