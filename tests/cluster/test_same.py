"""What the ranks of two nodes have to have in common: the job, the data and the best model, or an error."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.nodes import fixed
from tests.support.containers import Container

pytestmark = pytest.mark.slow

SCRIPT = ("--volume", f"{Path(__file__).with_name('same.py')}:/workspace/same.py:ro")
BOUND = 90  # seconds, of which a rank imports for some
Start = Callable[..., Container]


@pytest.fixture
def pod(container: Callable[..., Container]) -> Start:
    """Start the script on a node."""

    def start(number: int, how: str, host: str = "") -> Container:
        return container(host or f"pod{number}", number, "same.py", how, environ=fixed(number), options=SCRIPT)

    return start


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("split", "data differ between ranks, which were split or shuffled by each for itself: random_split"),
        ("rows", "ranks share data of which they have not the same number of rows"),
    ],
)
def test_other_data_on_a_node_end_the_job(pod: Start, how: str, says: str) -> None:
    pods, began = [pod(0, how), pod(1, how)], time.monotonic()

    assert all(rank.code(BOUND) for rank in pods)
    assert time.monotonic() - began < BOUND
    assert any(says in rank.log for rank in pods)


@pytest.mark.parametrize("how", ["well", "best"])
def test_ranks_with_the_same_end_with_one_model(pod: Start, how: str) -> None:
    pods = [pod(0, how), pod(1, how)]

    assert [rank.code(BOUND) for rank in pods] == [0, 0]
    first, second = (re.findall(r"(?m)^weights (\S+)$", rank.log) for rank in pods)
    assert first == second and len(first) == 1


def test_a_node_of_another_job_is_refused_and_the_own_one_joins(pod: Start) -> None:
    first, stranger = pod(0, "well"), pod(1, "best", "stranger")
    assert stranger.code(BOUND) == 2
    assert "same.py well there, same.py best here" in stranger.log

    second = pod(1, "well")

    assert [rank.code(BOUND) for rank in (first, second)] == [0, 0]
