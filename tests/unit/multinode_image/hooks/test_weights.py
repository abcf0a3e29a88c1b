"""The proof of one model: its numbers, and what is said of them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from multinode_image.hooks.model.proof import Look, Record, describe, find_apart, find_bare, find_unlike
from multinode_image.hooks.model.weights import (
    COUNT,
    DIFFERENT,
    EPSILONS,
    EQUAL,
    UNKNOWN,
    Distance,
    Sample,
    judge,
    measure,
    unpack,
    unravel,
)


def looks(verdicts: str, *, exchanged: bool | None = True) -> tuple[Look, ...]:
    """Make up the looks after the steps 1, 2, 4, ...: d for different, e for equal, u for unknown."""
    kinds = {"d": (DIFFERENT, 0.5), "e": (EQUAL, 0.0), "u": (UNKNOWN, 0.0)}
    return tuple(Look(2**number, *kinds[kind], exchanged) for number, kind in enumerate(verdicts))


def record(verdicts: str, *, exchanged: bool | None = True, wrapped: bool = False, parts: bool = False) -> Record:
    known = looks(verdicts, exchanged=exchanged)
    return Record("SGD of 6 parameters", 100, known, wrapped, parts, True, exchanged)


WRAPPED, BARE = record("eeee", wrapped=True), record("dddd")


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
    ("records", "forgotten"),
    [
        pytest.param([WRAPPED, BARE], BARE, id="a bare model beside a wrapped one"),
        pytest.param([WRAPPED, record("dede")], None, id="averaged now and then"),
        pytest.param([WRAPPED, record("d")], None, id="one look"),
        pytest.param([record("eeee"), BARE], None, id="beside one that is averaged by hand"),
        pytest.param([WRAPPED, WRAPPED], None, id="both are wrapped"),
        pytest.param([BARE], None, id="alone"),
    ],
)
def test_a_bare_model_beside_a_wrapped_one_was_forgotten(records: list[Record], forgotten: Record | None) -> None:
    assert find_bare(records) == forgotten


@pytest.mark.parametrize(
    ("one", "is_unlike"), [(record("dd", wrapped=True), True), (record("d", wrapped=True), False), (BARE, False)]
)
def test_a_wrapped_model_that_differs_is_told(one: Record, is_unlike: bool) -> None:
    assert find_unlike([one]) == (one if is_unlike else None)


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([WRAPPED], "trained as one job of 2 ranks, with equal weights at step 8"),
        ([WRAPPED, record("e" * 12)], "trained as one job of 2 ranks, with equal weights at step 8"),
        ([record("eed")], "trained as one job of 2 ranks, with equal weights at step 2, and other ones at step 4"),
        ([WRAPPED, BARE], "in a group of 2 ranks, whose weights differ (SGD of 6 parameters, at step 8: 0.5 of what"),
        ([record("eee", exchanged=False)], "equal weights at step 4, and nothing was exchanged"),
        ([WRAPPED, record("eee", exchanged=False)], "as one job of 2 ranks, with equal weights at step 8"),
        (
            [record("ee"), record("eee", exchanged=False)._replace(steps=200)],
            "job of 2 ranks, with equal weights at step 2",
        ),
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


SINGLE, BRAIN = EPSILONS["float32"], EPSILONS["bfloat16"]


@pytest.mark.parametrize(("at", "shape", "index"), [(0, (), ()), (5, (6,), (5,)), (23, (2, 3, 4), (1, 2, 3))])
def test_an_element_has_an_index(at: int, shape: tuple[int, ...], index: tuple[int, ...]) -> None:
    assert unravel(at, shape) == index


def test_a_sample_is_unpacked_as_it_was_packed() -> None:
    sample = Sample((1.5, 2**-140), (-0.1, math.pi))

    assert unpack(sample.pack()) == sample


@pytest.mark.parametrize(
    ("mine", "theirs", "distance"),
    [
        pytest.param(((0, 0), (3, 4)), ((0, 0), (3, 4)), Distance(0, 0, 2), id="equal"),
        pytest.param(((0, 0), (3, 4)), ((0, 0), (3, 9)), Distance(5 / math.hypot(3, 9), 5 / 9 / SINGLE, 2), id="other"),
        pytest.param(((1, 0), (1, 2)), ((1, 0), (1, 2)), Distance(0, 0, 1), id="one has moved"),
        pytest.param(((1, 2), (1, 2)), ((1, 2), (1, 2)), Distance(0, 0, 0), id="none has moved"),
        pytest.param(((1,), (1,)), ((2,), (2,)), Distance(math.inf, 0.5 / SINGLE, 0), id="none has moved, other ones"),
        pytest.param(((1, 0), (1, 2)), ((1,), (1,)), None, id="other elements"),
        pytest.param(((0, 0), (1, math.nan)), ((0, 0), (1, 1)), None, id="no number"),
        pytest.param(((0, 0), (1, 1)), ((0, 0), (1, math.inf)), None, id="not finite"),
    ],
)
def test_how_far_ranks_are_apart(mine: Any, theirs: Any, distance: Distance | None) -> None:
    measured = measure(Sample(*mine), Sample(*theirs), [SINGLE] * len(mine[0]))

    assert measured == (distance and pytest.approx(distance))


@pytest.mark.parametrize(
    ("epsilon", "ratio", "units", "verdict"),
    [
        # as measured: together on unlike processors, and apart
        (SINGLE, 0, 0, EQUAL),
        (SINGLE, 3.9e-7, 83, EQUAL),
        (SINGLE, 0.0035, 6e5, DIFFERENT),
        (SINGLE, 0.18, 1e6, DIFFERENT),
        (SINGLE, 0.94, 240, DIFFERENT),
        (SINGLE, 1.3e-7, 6, EQUAL),
        (SINGLE, 0.5, 3, UNKNOWN),  # it has moved by a few roundings
        (BRAIN, 6.2e-3, 4.4, EQUAL),
        (BRAIN, 0.038, 37, DIFFERENT),
        (BRAIN, 0.12, 3, UNKNOWN),
    ],
)
def test_what_a_distance_says(epsilon: float, ratio: float, units: float, verdict: str) -> None:
    assert judge(Distance(ratio, units, COUNT), [epsilon] * COUNT) == verdict


@pytest.mark.parametrize(
    ("moved", "elements", "verdict"),
    [(7, 64, UNKNOWN), (8, 64, EQUAL), (2, 5, EQUAL), (1, 5, UNKNOWN), (0, 1, UNKNOWN)],
)
def test_what_has_not_moved_proves_nothing(moved: int, elements: int, verdict: str) -> None:
    assert judge(Distance(0, 0, moved), [SINGLE] * elements) == verdict


def test_samples_that_cannot_be_compared_prove_nothing() -> None:
    assert judge(None, [SINGLE]) == UNKNOWN
