"""What the benchmark prints, from figures made by hand."""

from __future__ import annotations

from scripts.bench import table

MB = 1_000_000


def runs(built: list[float], size: int) -> list[dict[str, float]]:
    return [{"built": each, "pushed": 2 * each, "size": size * MB, "sent": 7 * MB} for each in built]


def test_medians_and_ratios_stand_side_by_side() -> None:
    figures = {
        "ours first": runs([10, 12, 50], 350),
        "theirs first": runs([60, 30, 48], 700),
        "ours next": runs([2, 2, 2], 350),
        "theirs next": runs([20, 20, 20], 700),
    }
    result = {
        "machine": "2 cores", "releases": ("5.23.0", "5.22.2"), "runs": figures,
        "unpacked": {"ours": 1300 * MB, "theirs": 2600 * MB},
    }  # fmt: skip

    lines = table(result).splitlines()

    assert "| 12.0 s | 48.0 s | 0.25 |" in lines[2]
    assert "| 350.0 MB | 700.0 MB | 0.50 |" in lines[7]
    assert lines[-1] == "Medians of 3 alternating runs; 2 cores."
