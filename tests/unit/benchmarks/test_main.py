"""The command line of the benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import start


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["start", "--runs", "0"], "0"),
        (["start", "--runs", "many"], "'many'"),
        (["start", "--json", "/no/such/directory/figures.json"], "/no/such/directory"),
        (["stop"], "'stop'"),
        ([], "what"),
    ],
)
def test_a_mistake_is_named_before_anything_is_measured(
    words: list[str], value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "measure", lambda _: pytest.fail("measured"))

    code = benchmarks.main(words)

    first, second = capsys.readouterr().err.splitlines()
    assert code == 2
    assert first.startswith("error: ") and value in first
    assert second.startswith("  try: ")


def test_figures_are_printed_and_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(start, "measure", lambda runs: {"runs": runs})
    monkeypatch.setattr(start, "table", lambda measured: f"a table of {measured['runs']}")

    assert benchmarks.main(["start", "--runs", "5", "--json", str(tmp_path / "figures.json")]) == 0

    assert capsys.readouterr().out == "a table of 5\n"
    assert (tmp_path / "figures.json").read_text() == '{\n "runs": 5\n}\n'
