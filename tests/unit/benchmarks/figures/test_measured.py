"""Medians, ratios, and how values are written."""

from __future__ import annotations

import pytest

from benchmarks.figures.measured import Figures, of_json, written
from images.host.errors import WorldFault


def test_a_ratio_is_that_of_the_medians() -> None:
    figures = Figures()
    for ours, theirs in ((10, 60), (12, 30), (50, 48)):
        figures.add("ours", ours)
        figures.add("theirs", theirs)

    assert figures.median("ours") == 12
    assert figures.ratio("ours", "theirs") == 0.25
    assert figures.median("nobody's") is None
    assert figures.ratio("ours", "nobody's") is None


def test_what_cannot_be_measured_is_kept_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures()

    with figures.optional("1 Gbit/s"):
        raise WorldFault("a command failed", "tc", "apt-get install iproute2")

    assert figures.missing == {"1 Gbit/s": "a command failed: tc"}
    assert "apt-get install iproute2" in capsys.readouterr().err


def test_another_error_is_not_kept_back() -> None:
    with pytest.raises(KeyError), Figures().optional("1 Gbit/s"):
        raise KeyError


def test_the_file_gives_back_what_was_put_into_it() -> None:
    figures = Figures(missing={"oneCCL": "no wheels"}, facts={"curve": [[1, 2, 3]]})
    figures.add("size", 1234, "bytes")

    assert of_json(figures.as_json()) == figures


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (412_523_180, "bytes", "412.5 MB"), (0.0335, "s", "33.5 ms"), (0.6, "s", "0.60 s"), (72.34, "s", "72.3 s"),
        (0.104, "ratio", "0.10"), (48.2, "ratio", "48"), (0.0111, "", "0.0111"),
        (7.113, "samples/s", "7.113 samples/s"),
    ],
)  # fmt: skip
def test_values_are_written_with_their_unit(value: float, unit: str, text: str) -> None:
    assert written(value, unit) == text
