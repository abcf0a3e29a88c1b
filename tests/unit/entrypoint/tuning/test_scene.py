"""How many processes a node gets, and which of them train."""

from __future__ import annotations

import pytest

from entrypoint.launchers.world import World
from entrypoint.tuning.scene import crowd, is_training, spread
from tests.support.machines import Box, look_at, pod

ALONE, BOTH = World("alone", ""), World("mpi", "", (1, 1), None, 2, 1, 1, 2, "127.0.0.1", 29500)
SMALL, TWO = Box(1, 2), Box(2, 28, 2)


@pytest.mark.parametrize(
    ("world", "box", "limit", "count"),
    [
        (ALONE, SMALL, {}, 1),
        (ALONE, TWO, {}, 2),
        (ALONE, TWO, pod(8), 1),
        (ALONE._replace(local_size=3), TWO, {}, 3),
        (World("torchrun", "", (2, 2)), TWO, {}, 2),
        (World("mpijob-worker", ""), TWO, {}, 1),
    ],
)
def test_processes_of_a_node(world: World, box: Box, limit: dict[str, str], count: int) -> None:
    assert spread(world, look_at(box, limit)).local_size == count


@pytest.mark.parametrize(
    ("launcher", "job", "expected"),
    [("alone", False, False), ("alone", True, True), ("mpi", False, True), ("mpijob-launcher", False, False)],
)
def test_who_trains(launcher: str, job: bool, expected: bool) -> None:
    assert is_training(World(launcher, ""), job=job) is expected


@pytest.mark.parametrize(("count", "says"), [(1, False), (2, False), (3, True)])
def test_processes_that_share_cores_are_noted(count: int, says: bool) -> None:
    assert bool(crowd(ALONE._replace(local_size=count), look_at(SMALL))) == says
    assert not crowd(BOTH._replace(local_size=count), look_at(SMALL))
