"""The command line of the benchmarks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.figures.measured import Figures
from benchmarks.host import machine
from benchmarks.image import measure as image
from tests.support.figures import MACHINE, sizes


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    yield None


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Describe a machine without asking its engine."""
    monkeypatch.setattr(machine, "await_quiet", lambda find_load: 0.0)
    monkeypatch.setattr(machine, "describe", lambda load: MACHINE)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["start", "--runs", "0"], "0"),
        (["start", "--runs", "many"], "'many'"),
        (["start", "--json", "/no/such/directory/figures.json"], "/no/such/directory"),
        (["start", "--json", __file__], "test_main.py"),
        (["plot", "--json", "/tmp/figures.json"], "--json /tmp/figures.json"),
        (["plot", "--runs", "3"], "--runs 3"),
        (["stop"], "'stop'"),
        ([], "what"),
    ],
)
def test_a_mistake_is_named_before_anything_is_measured(
    words: list[str], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = benchmarks.main(words, lambda: pytest.fail("measured"))

    first, second = capsys.readouterr().err.splitlines()
    assert code == 2
    assert first.startswith("error: ") and value in first
    assert second.startswith("  try: ")


@pytest.mark.parametrize(("size", "code"), [(300_000_000, 0), (412_500_000, 1)])
def test_a_missed_size_is_a_failure_and_the_figures_are_written(
    size: int,
    code: int,
    quiet: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def measure(_: object, figures: Figures, runs: int) -> None:
        made = sizes(size)
        figures.values, figures.units = made.values, made.units

    monkeypatch.setattr(image, "measure", measure)

    assert benchmarks.main(["image", "--runs", "5", "--json", str(tmp_path / "figures.json")], scratch) == code

    assert f"{size / 1e6:.1f} MB" in capsys.readouterr().out
    part = json.loads((tmp_path / "figures.json").read_text())["image"]
    assert part["runs"] == 5
    assert part["figures"]["ours with bytecode"] == {"unit": "bytes", "values": [size]}
