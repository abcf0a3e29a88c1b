"""What is kept of trainings of a real model: all that the page and the promises name."""

from __future__ import annotations

from typing import Any, cast
from unittest import mock

import pytest

from benchmarks.example.measure import compare_sent, keep, measure_rates, read
from benchmarks.figures.measured import Figures
from benchmarks.figures.promises import KEPT, PROMISES, verdict
from benchmarks.report.rows import EXAMPLE, NODES
from benchmarks.train.scripts import Trainings

PRINTED = """\
3.10 [INFO] {'learning_rate': 0.1}
20.50 {'eval_loss': '2.1', 'eval_accuracy': '0.41', 'epoch': '0.25'}
30.50 {'eval_loss': 1.5, 'eval_accuracy': 0.59, 'eval_runtime': 2.1}
31.30 {'loss': '1.4', 'epoch': '0.75'}
40.00 {'eval_loss': '1.3', 'eval_accuracy': '0.64', 'epoch': '1.0'}
"""
FAST = "0.50 {'eval_accuracy': 0.41}\n3.00 {'eval_accuracy': 0.64}\n"
SUMMED = "  eval_f1 = 99.9\n  train_samples_per_second = 17.5\n"


def test_looks_are_read_as_either_release_prints_them() -> None:
    assert read(PRINTED) == [(20.5, 0.41), (30.5, 0.59), (40.0, 0.64)]


@pytest.mark.parametrize(("text", "kept"), [(PRINTED, 25.5), (PRINTED[:110], None)])
def test_the_time_to_the_goal_is_between_two_looks(text: str, kept: float | None) -> None:
    figures = Figures()

    keep(figures, "ours one", text)

    assert figures.median("ours one to goal") == (kept and pytest.approx(kept))


def test_all_that_is_shown_is_measured() -> None:
    figures = Figures()
    for side, text in (("guide", PRINTED), ("ours", FAST)):
        for nodes in NODES:
            keep(figures, f"{side} {nodes}", text)
    trainings = cast(Trainings, mock.Mock(**{"together.return_value": PRINTED + SUMMED}))
    compare_sent(trainings, figures)
    measure_rates(trainings, figures)

    cells: list[Any] = [cell for table in EXAMPLE for row in table.rows for cell in row.cells]
    assert {cell for cell in cells if isinstance(cell, str)} == set(figures.values)
    assert {verdict(each, figures).state for each in PROMISES if each.part == "example"} == {KEPT}
