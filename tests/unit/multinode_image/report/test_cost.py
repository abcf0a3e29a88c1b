"""What a training would take and cost on several nodes, from a first run."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.errors import Refusal
from multinode_image.report.cost import NODES, Asked, estimate_seconds, measure_run, read_asked, write_costs
from multinode_image.report.trainings import SPEED, WAITING, Attempt, Training

FACTS = {"batch": 32, "ranks": 1, "weights": 66e6, "threads": "8", "bf16": False}


def trained(speed: float = 100.0, waited: float | None = None, **more: object) -> Training:
    """Return a training of 1,000 steps."""
    curves = {SPEED: [(1, 1.0), (2, speed), (3, speed)]}
    curves |= {WAITING: [(3, waited)]} if waited is not None else {}
    return Training("results", (Attempt(0, {**FACTS, **more}),), curves, {}, 1000, None, ())


def seconds(training: Training, asked: Asked) -> list[float]:
    return [estimate_seconds(measure_run(training, asked), asked, nodes) for nodes in NODES]


@pytest.mark.parametrize(
    ("words", "asked", "directories"),
    [
        ("--price 1.2 --network 119", Asked(1.2, 119.0), []),
        ("--price=1 qa --network=2e3 --latency 0.1", Asked(1, 2000, 0.1), ["qa"]),
        ("a=b --network 1 --samples 5 --price 3 --sent 87", Asked(3, 1, 0, 87, 5), ["a=b"]),
    ],
)
def test_what_is_typed_is_read(words: str, asked: Asked, directories: list[str]) -> None:
    assert read_asked(words.split()) == (asked, directories)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--price 1", "--network"),
        ("--network 1", "--price"),
        ("--price 0 --network 1", "'0'"),
        ("--price nan --network 1", "'nan'"),
        ("--price inf --network 1", "'inf'"),
        ("--network --price 1", "'--price'"),
        ("--network 1 --price", "''"),
        ("--price 1 --network 1 --nodes 3", "--nodes"),
    ],
)
def test_anything_else_is_refused(words: str, value: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_asked(words.split())

    assert (refused.value.code, refused.value.value) == (2, value)


def test_one_node_takes_what_was_measured() -> None:
    alone, *_ = seconds(trained(waited=20.0), Asked(1, 1000))

    assert alone == pytest.approx(1000 * 32 / 100)


def test_a_fast_network_halves_the_time_and_a_slow_one_does_not() -> None:
    fast, slow = (seconds(trained(), Asked(1, speed)) for speed in (1e5, 10.0))

    assert fast[0] / fast[1] == pytest.approx(2, rel=0.1)
    assert slow[0] / slow[1] < 1


def test_bf16_sends_half_and_what_is_typed_counts() -> None:
    plain, lowered = (seconds(trained(bf16=each), Asked(1, 20.0)) for each in (False, True))

    assert lowered[1] < plain[1]
    assert seconds(trained(), Asked(1, 20.0, sent=132.0)) == lowered


@given(
    st.floats(0.01, 1e5),
    st.floats(0, 100),
    st.integers(1, 64),
    st.floats(1e3, 1e11),
    st.floats(1, 1e5),
    st.floats(0, 50),
)
def test_no_more_nodes_are_faster_than_by_their_number(
    speed: float, waited: float, ranks: int, weights: float, network: float, latency: float
) -> None:
    asked = Asked(1, network, latency)
    alone, *others = seconds(trained(speed, waited, ranks=ranks, weights=weights), asked)

    compute = alone * (1 - waited / 100)
    assert all(each >= compute / nodes * (1 - 1e-6) for each, nodes in zip(others, NODES[1:], strict=True))


def test_the_table_says_what_is_measured_and_what_is_estimated() -> None:
    text = write_costs(trained(), Asked(36, 119, 0.1))

    rows = [line.split() for line in text.splitlines() if re.match(r" +\d", line)]
    assert [row[0] for row in rows] == ["1", "2", "4", "8"]
    assert rows[0][-2:] == ["measured", "speed"] and {row[-1] for row in rows[1:]} == {"estimated"}
    assert "3.20" in rows[0] and "5 min 20 s" in " ".join(rows[0])


@pytest.mark.parametrize(("name", "value"), [("batch", None), ("ranks", "x"), ("ranks", 0)])
def test_a_training_without_a_speed_is_refused(name: str, value: object) -> None:
    facts: dict[str, Any] = {name: value}
    with pytest.raises(Refusal):
        measure_run(trained(**facts), Asked(1, 1))
    with pytest.raises(Refusal):
        measure_run(Training("x", (), {}, {}, 0, None, ()), Asked(1, 1))
