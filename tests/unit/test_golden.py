"""Plans and refusals are what they were; tests/golden says how they are made and renewed."""

from __future__ import annotations

import json

import pytest

from tests.golden import data, plans, refusals


@pytest.mark.parametrize("path", plans.FILES)
def test_a_plan_is_what_it_was(path: str) -> None:
    assert plans.FILES[path]() == data.recorded(path), data.REMEDY


@pytest.mark.parametrize("typed", refusals.REFUSALS)
def test_a_refusal_says_what_it_said(typed: str) -> None:
    known = json.loads(data.recorded(refusals.PATH))

    assert refusals.refused([typed]).items() <= known.items(), data.REMEDY


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in (data.PLACE / "plan").iterdir()} == {f"{name}.json" for name in plans.PLANS}
    assert len(json.loads(data.recorded(refusals.PATH))) == len(refusals.REFUSALS)
