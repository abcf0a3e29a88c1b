"""Figures, the file that has them, what is promised of them, and the command line that measures them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import figures, promises
from benchmarks.figures import Figures, of_json
from benchmarks.host import machine
from benchmarks.promises import KEPT, MISSED, SHOWN, UNKNOWN, Promise
from images.host.errors import UserFault
from tests.support.figures import MACHINE, sizes

MOST = Promise("build", "built", "ours", "how", "theirs", most=0.10)
LEAST = Promise("train", "together", "apart", "how", "together", least=0.95)
SECONDS = Promise("build", "from nothing", "ours", "how", most=45, unit="s")
WITH_AMX = Promise("train", "tuned", "untuned", "how", "tuned", least=1.4, amx=True)
OPEN = Promise("train", "8 x 128", "ours", "how", "theirs")


def measured(**values: float) -> Figures:
    kept = Figures()
    for name, value in values.items():
        kept.add(name, value)
    return kept


def test_a_ratio_is_that_of_the_medians() -> None:
    kept = Figures()
    for ours, theirs in ((10, 60), (12, 30), (50, 48)):
        kept.add("ours", ours)
        kept.add("theirs", theirs)

    assert kept.median("ours") == 12
    assert kept.ratio("ours", "theirs") == 0.25
    assert kept.median("nobody's") is None
    assert kept.ratio("ours", "nobody's") is None


def test_the_file_gives_back_what_was_put_into_it() -> None:
    kept = Figures(missing={"oneCCL": "no wheels"})
    kept.add("size", 1234, "bytes")

    assert of_json(kept.as_json()) == kept


def test_a_part_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    for name, runs in (("train", 50), ("build", 1), ("build", 3)):
        figures.put(path, name, {"runs": runs})

    parts = figures.read(path)

    assert parts == {"build": {"runs": 3}, "train": {"runs": 50}}
    assert list(json.loads(path.read_text())) == ["build", "train"], "the order is that of the page"


@pytest.mark.parametrize("text", ["[]", '{"version": 1}', "no JSON"])
def test_another_file_is_not_overwritten(text: str, tmp_path: Path) -> None:
    path = tmp_path / "package.json"
    path.write_text(text)

    with pytest.raises(UserFault):
        figures.put(path, "build", {})

    assert path.read_text() == text


@pytest.mark.parametrize(
    ("promise", "values", "state", "fails"),
    [
        (MOST, {"ours": 1, "theirs": 10}, KEPT, False),
        (MOST, {"ours": 1.1, "theirs": 10}, MISSED, True),
        (MOST, {"ours": 1}, UNKNOWN, True),
        (LEAST, {"apart": 0.95, "together": 1}, KEPT, False),
        (LEAST, {"apart": 0.9, "together": 1}, MISSED, True),
        (SECONDS, {"ours": 45}, KEPT, False),
        (SECONDS, {"ours": 46}, MISSED, False),
        (SECONDS, {}, UNKNOWN, False),
        (OPEN, {"ours": 1, "theirs": 2}, SHOWN, False),
        (OPEN, {}, SHOWN, False),
    ],
)
def test_only_a_missed_ratio_or_size_is_a_failure(
    promise: Promise, values: dict[str, float], state: str, fails: bool
) -> None:
    verdict = promises.verdict(promise, measured(**values))

    assert (verdict.state, verdict.fails) == (state, fails)


@pytest.mark.parametrize(
    ("amx", "units", "value", "state", "fails"),
    [
        (True, ["avx512_bf16", "amx_bf16"], 1.3, MISSED, True),
        (True, ["amx_bf16"], 1.4, KEPT, False),
        (True, ["avx512_bf16"], 1.3, SHOWN, False),
        (True, ["avx512_bf16"], None, UNKNOWN, True),
        (False, ["avx512_bf16"], 1.3, MISSED, True),
        (False, ["amx_bf16"], 1.3, SHOWN, False),
    ],
)
def test_what_is_promised_for_some_processors_is_only_shown_on_others(
    amx: bool, units: list[str], value: float | None, state: str, fails: bool
) -> None:
    pair = {"tuned": 1.0, "untuned": value} if value else {}
    read = of_json({**measured(**pair).as_json(), "machine": {"units": units}})
    verdict = promises.verdict(replace(WITH_AMX, amx=amx), read)

    limit = f"≥ 1.40 {'with' if amx else 'without'} AMX"
    assert (verdict.state, verdict.fails, verdict.promise.limit) == (state, fails, limit)


@pytest.mark.parametrize(
    ("promise", "value", "text"),
    [
        (MOST, 0.10, "0.10"),
        (MOST, 0.104, "0.104"),
        (MOST, 0.11, "0.11"),
        (SECONDS, 45.04, "45.04 s"),
        (SECONDS, 44.96, "45.0 s"),
        (OPEN, 0.104, "0.10"),
    ],
)
def test_a_value_beyond_its_limit_never_looks_like_the_limit(promise: Promise, value: float, text: str) -> None:
    assert promises.verdict(promise, measured(ours=value, theirs=1)).text == text


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
        (["start", "--json", __file__], "test_figures.py"),
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
    def measure(_: object, kept: Figures, runs: int) -> None:
        kept.values, kept.units = sizes(size).values, sizes(size).units

    monkeypatch.setitem(benchmarks.PARTS, "image", (measure, 1))

    assert benchmarks.main(["image", "--runs", "5", "--json", str(tmp_path / "figures.json")], scratch) == code

    assert f"{size / 1e6:.1f} MB" in capsys.readouterr().out
    part = json.loads((tmp_path / "figures.json").read_text())["image"]
    assert part["runs"] == 5
    assert part["figures"]["ours with bytecode"] == {"unit": "bytes", "values": [size]}
