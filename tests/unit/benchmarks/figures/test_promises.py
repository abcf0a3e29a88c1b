"""What is promised, and what a missed promise does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.figures import promises
from benchmarks.figures.measured import Figures, of_json
from benchmarks.figures.promises import KEPT, MISSED, SHOWN, UNKNOWN, Promise

MOST = Promise("build", "built", "ours", "how", "theirs", most=0.10)
LEAST = Promise("train", "together", "apart", "how", "together", least=0.95)
SECONDS = Promise("build", "from nothing", "ours", "how", most=45, unit="s")
WITH_AMX = Promise("train", "tuned", "untuned", "how", "tuned", least=1.4, amx=True)
OPEN = Promise("train", "8 x 128", "ours", "how", "theirs")


def figures(**values: float) -> Figures:
    made = Figures()
    for name, value in values.items():
        made.add(name, value)
    return made


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
    found = promises.verdict(promise, figures(**values))

    assert (found.state, found.fails) == (state, fails)


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
    read = of_json({**figures(**pair).as_json(), "machine": {"units": units}})
    found = promises.verdict(replace(WITH_AMX, amx=amx), read)

    limit = f"≥ 1.40 {'with' if amx else 'without'} AMX"
    assert (found.state, found.fails, found.promise.limit) == (state, fails, limit)


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
    assert promises.verdict(promise, figures(ours=value, theirs=1)).text == text
