"""Medians, ratios, and how values are written."""

from __future__ import annotations

from benchmarks.figures.measured import Figures, of_json


def test_a_ratio_is_that_of_the_medians() -> None:
    figures = Figures()
    for ours, theirs in ((10, 60), (12, 30), (50, 48)):
        figures.add("ours", ours)
        figures.add("theirs", theirs)

    assert figures.median("ours") == 12
    assert figures.ratio("ours", "theirs") == 0.25
    assert figures.median("nobody's") is None
    assert figures.ratio("ours", "nobody's") is None


def test_the_file_gives_back_what_was_put_into_it() -> None:
    figures = Figures(missing={"oneCCL": "no wheels"}, facts={"curve": [[1, 2, 3]]})
    figures.add("size", 1234, "bytes")

    assert of_json(figures.as_json()) == figures
