"""What the benchmarks print, from figures made by hand."""

from __future__ import annotations

from benchmarks import builds, start

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

    lines = builds.table(result).splitlines()

    assert "| 12.0 s | 48.0 s | 0.25 |" in lines[2]
    assert "| 350.0 MB | 700.0 MB | 0.50 |" in lines[7]
    assert lines[-1] == "Medians of 3 alternating runs; 2 cores."


def test_what_the_entrypoint_adds() -> None:
    seconds = {
        "bypassed": [0.001, 0.002, 0.003], "python": [0.010, 0.012, 0.011], "ours": [0.040, 0.044, 0.300],
        "container bypassed": [0.5, 0.4, 0.6], "container ours": [0.6, 0.5, 0.55],
        "bypassed processor": [0.001], "python processor": [0.010], "ours processor": [0.035],
    }  # fmt: skip

    lines = start.table({"machine": "2 cores", "runs": seconds}).splitlines()

    assert lines[2].endswith("| 44.0 ms | 2.0 ms | 42.0 ms | 22.00 |")
    assert lines[4].endswith("| 35.0 ms | 10.0 ms | 25.0 ms | 3.50 |")
    assert lines[5].endswith("| 550.0 ms | 500.0 ms | 50.0 ms | 1.10 |")
    assert lines[-1] == "Medians of 3 alternating runs; 2 cores."
