"""Every decision of the recorded environments, and the words of every refusal, are as they were: tests/data/golden."""

from __future__ import annotations

import pytest

from tests.golden import data, messages
from tests.golden.explain import cases, produce


@pytest.fixture(scope="module")
def produced() -> dict[str, str]:
    """Decide every case once."""
    return produce()


def test_every_case_has_golden_data_and_no_other_is_there() -> None:
    assert data.recorded("explain").keys() == {f"{case.name}.json" for case in cases()}


@pytest.mark.parametrize("name", [case.name for case in cases()])
def test_the_decision_is_as_recorded(name: str, produced: dict[str, str]) -> None:
    assert produced[f"{name}.json"] == data.recorded("explain")[f"{name}.json"], data.REMEDY


def test_the_words_of_refusals_are_as_recorded() -> None:
    assert messages.produce() == data.recorded("messages"), data.REMEDY
