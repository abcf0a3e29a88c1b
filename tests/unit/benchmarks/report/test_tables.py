"""What is printed of a part, from figures made by hand."""

from __future__ import annotations

from benchmarks.figures.measured import Figures
from benchmarks.report import tables
from tests.support.figures import part


def test_what_was_missed_and_what_was_not_measured_is_said() -> None:
    figures = Figures(missing={"oneCCL": "MULTINODE_CCL is not set"})
    figures.add("apart 12x384", 5.0)
    figures.add("together 12x384", 10.0)

    text = tables.whole("settings", part(figures))

    assert "| ≥ 0.95 | 0.50 | **missed** |" in text
    assert "| ≥ 2.00 | — | not measured |" in text
    assert "Not measured: oneCCL (MULTINODE_CCL is not set)." in text
