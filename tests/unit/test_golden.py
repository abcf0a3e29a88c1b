"""Plans and refusals are what they were; tests/golden says how they are made and renewed."""

from __future__ import annotations

import json

import pytest

from tests.golden import data, plans, refusals


@pytest.mark.parametrize("name", plans.PLANS)
def test_a_plan_is_what_it_was(name: str) -> None:
    different = data.difference("plan", f"{name}.json", plans.printed(plans.PLANS[name]))

    assert not different, f"{different}\n{data.REMEDY}"


@pytest.mark.parametrize(
    ("group", "typed"), [(name, each) for name, all_ in refusals.REFUSALS.items() for each in all_]
)
def test_a_refusal_says_what_it_said(group: str, typed: str) -> None:
    known = json.loads(data.recorded("refusals")[f"{group}.json"])

    assert refusals.refused(typed) == known[f"build.py {typed}"], data.REMEDY


def test_no_golden_data_are_left_over() -> None:
    assert data.recorded("plan").keys() == {f"{name}.json" for name in plans.PLANS}
    for name, typed in refusals.REFUSALS.items():
        known = json.loads(data.recorded("refusals")[f"{name}.json"])
        assert known.keys() == {f"build.py {words}" for words in typed}
