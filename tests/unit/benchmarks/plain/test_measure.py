"""What is kept on a plain processor: all that the page and the promises name."""

from __future__ import annotations

import json
from typing import Any, cast
from unittest import mock

import pytest

from benchmarks.figures.measured import Figures
from benchmarks.figures.promises import KEPT, MISSED, PROMISES, verdict
from benchmarks.plain.measure import RATES, SPEEDS, compare_orders, keep_share
from benchmarks.report.rows import PLAIN
from benchmarks.settings.scenes import WARM
from benchmarks.train.scripts import Trainings, measure_speed

SPEED = {"guide": 10.0, "padded": 25.0, "ours": 40.0}


def train(side: str, *_: object) -> str:
    return side


def ran(side: str, *_: object) -> str:
    return f"  train_samples_per_second = {SPEED[side]}\n"


def measured(step: float) -> Figures:
    """Return what is kept of trainings with these speeds; step: seconds of one whose products alone take two."""
    figures = Figures()
    scratch = mock.Mock(**{"rounds.side_effect": range})
    trainings = cast(Trainings, mock.Mock(scratch=scratch, train=train, run=ran, together=ran))
    compare_orders(trainings, figures, 1)
    measure_speed(trainings, figures, 1, SPEEDS)
    seconds = dict(zip(RATES, ([99.0] * WARM + [step] * 3, [50.0] * WARM + [2.0] * 3), strict=True))
    keep_share(figures, f"a line of the training\n{json.dumps({'operations': 4e9, **seconds})}\n")
    return figures


def test_all_that_is_shown_is_measured() -> None:
    figures = measured(2.2)

    cells: list[Any] = [cell for table in PLAIN for row in table.rows for cell in row.cells]
    never = {"qqp padded speed in two"}  # a column of other rows
    assert {cell for cell in cells if isinstance(cell, str)} - never == set(figures.values)
    assert {verdict(each, figures).state for each in PROMISES if each.part == "plain"} == {KEPT}


@pytest.mark.parametrize(("step", "share", "state"), [(2.0, 1.0, KEPT), (2.5, 0.8, KEPT), (4.0, 0.5, MISSED)])
def test_the_share_of_a_core_is_that_of_the_turns_after_the_first(step: float, share: float, state: str) -> None:
    figures = measured(step)
    [promise] = (each for each in PROMISES if each.figure == "step rate")

    found = verdict(promise, figures)

    assert found.value == pytest.approx(share)
    assert found.state == state
    assert figures.median("products rate") == 2.0
