"""What looks at weights prove: which trainings are an error, when, and what the last line says."""

from __future__ import annotations

import pytest

from multinode_image.hooks.model.proof import Look, Record, describe, find_apart, find_bare, find_unlike
from multinode_image.hooks.model.weights import DIFFERENT, EQUAL, UNKNOWN


def looks(verdicts: str, *, exchanged: bool | None = True) -> tuple[Look, ...]:
    """Make up the looks after the steps 1, 2, 4, ...: d for different, e for equal, u for unknown."""
    kinds = {"d": (DIFFERENT, 0.5), "e": (EQUAL, 0.0), "u": (UNKNOWN, 0.0)}
    return tuple(Look(2**number, *kinds[kind], exchanged) for number, kind in enumerate(verdicts))


def record(verdicts: str, *, exchanged: bool | None = True, wrapped: bool = False, parts: bool = False) -> Record:
    known = looks(verdicts, exchanged=exchanged)
    return Record("SGD of 6 parameters", 100, known, wrapped, parts, True, exchanged)


WRAPPED, OWN = record("eeee", wrapped=True), record("dddd")


@pytest.mark.parametrize(
    ("verdicts", "exchanged", "ends", "is_apart"),
    [
        pytest.param("ddddddd", False, False, True, id="at step 64"),
        pytest.param("dddddd", False, False, False, id="at step 32"),
        pytest.param("dddddd", False, True, True, id="at step 32, which was the last"),
        pytest.param("d", False, True, True, id="at step 1, which was the last"),
        pytest.param("ddddded", False, True, False, id="equal in between"),
        pytest.param("ddddddu", False, True, False, id="unknown at last"),
        pytest.param("ddddddd", True, True, False, id="something was exchanged"),
        pytest.param("ddddddd", None, True, False, id="nobody has counted"),
        pytest.param("eeeeeee", False, True, False, id="equal"),
        pytest.param("", False, True, False, id="no look"),
    ],
)
def test_ranks_that_differ_and_exchange_nothing_are_an_error(
    verdicts: str, exchanged: bool | None, ends: bool, is_apart: bool
) -> None:
    one = record(verdicts, exchanged=exchanged)

    assert find_apart([WRAPPED, one], ended=ends) == (one if is_apart else None)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        pytest.param([WRAPPED, OWN], OWN, id="a bare model beside a wrapped one"),
        pytest.param([WRAPPED, record("dede")], None, id="averaged now and then"),
        pytest.param([WRAPPED, record("d")], None, id="one look"),
        pytest.param([record("eeee"), OWN], None, id="beside one that is averaged by hand"),
        pytest.param([WRAPPED, WRAPPED], None, id="both are wrapped"),
        pytest.param([OWN], None, id="alone"),
    ],
)
def test_a_bare_model_beside_a_wrapped_one_was_forgotten(records: list[Record], found: Record | None) -> None:
    assert find_bare(records) == found


@pytest.mark.parametrize(
    ("one", "is_unlike"), [(record("dd", wrapped=True), True), (record("d", wrapped=True), False), (OWN, False)]
)
def test_a_wrapped_model_that_differs_is_told(one: Record, is_unlike: bool) -> None:
    assert find_unlike([one]) == (one if is_unlike else None)


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([WRAPPED], "trained as one job of 2 ranks, with equal weights at step 8"),
        ([WRAPPED, record("e" * 12)], "trained as one job of 2 ranks, with equal weights at step 8"),
        ([record("eed")], "trained as one job of 2 ranks, with equal weights at step 2, and other ones at step 4"),
        ([WRAPPED, OWN], "in a group of 2 ranks, whose weights differ (SGD of 6 parameters, at step 8: 0.5 of what"),
        ([record("eee", exchanged=False)], "equal weights at step 4, and nothing was exchanged"),
        ([WRAPPED, record("eee", exchanged=False)], "as one job of 2 ranks, with equal weights at step 8"),
        ([record("", parts=True)], "trained as one job of 2 ranks, each of which has a part"),
        ([record("", parts=True, exchanged=False)], "were not compared: each rank has a part"),
        (
            [WRAPPED, record("")],
            "equal weights at step 8; those of SGD of 6 parameters were not compared: no other rank",
        ),
        ([record("uuu")], "trained in a group of 2 ranks, whose weights were not compared: too few"),
        ([record("")], "were not compared: no other rank"),
        ([Record("SGD", 1)], "were not compared: it has made one step"),
        ([Record("SGD", 0)], "in which no optimizer has made a step"),
        ([], "worked as a group of 2 ranks, in which no optimizer has made a step"),
    ],
)
def test_the_last_line_says_what_was_proved(records: list[Record], says: str) -> None:
    assert says in describe(records, 2)
