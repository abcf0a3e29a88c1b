"""What is promised, and what a missed promise does."""

from __future__ import annotations

import pytest

from benchmarks.figures import holds
from benchmarks.figures.file import PARTS
from benchmarks.figures.holds import HOLDS, KEPT, MISSED, SHOWN, UNKNOWN, Hold
from benchmarks.figures.measured import Figures

MOST = Hold("build", "built", "ours", "how", "theirs", most=0.10)
LEAST = Hold("train", "together", "apart", "how", "together", least=0.95)
SECONDS = Hold("build", "from nothing", "ours", "how", most=45, unit="s")
OPEN = Hold("train", "8 x 128", "ours", "how", "theirs")


def figures(**values: float) -> Figures:
    made = Figures()
    for name, value in values.items():
        made.add(name, value)
    return made


@pytest.mark.parametrize(
    ("hold", "values", "state", "fails"),
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
    hold: Hold, values: dict[str, float], state: str, fails: bool
) -> None:
    found = holds.verdict(hold, figures(**values))

    assert (found.state, found.fails) == (state, fails)


def test_parts_that_were_not_measured_are_not_judged() -> None:
    assert {each.hold.part for each in holds.judge({"image": Figures()})} == {"image"}


def test_the_table_is_whole() -> None:
    assert {hold.part for hold in HOLDS} == {*PARTS}
    assert len({(hold.part, hold.what) for hold in HOLDS}) == len(HOLDS)
    assert [hold for hold in HOLDS if hold.most is not None and hold.least is not None] == []
    assert [hold.limit for hold in HOLDS if hold.figure == "memory"] == ["≤ 400.0 MB"]
