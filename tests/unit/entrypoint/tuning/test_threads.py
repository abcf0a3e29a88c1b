"""Where one core more or less decides: whose cores they are, and which of them oneCCL's workers take."""

from __future__ import annotations

import pytest

from entrypoint.machine.cpus import Machine
from entrypoint.machine.image import Stack
from entrypoint.tuning.scene import Scene
from entrypoint.tuning.threads import divide_cores, is_slurms_own
from entrypoint.world.model import World
from tests.support.machines import Box, look_at

CCL = Stack("2.4.0+cpu", "4.46.0", "3.11", "ccl", None, "/site")
STEP = World("slurm", "", (2, 2), None, 4, 1, 1, 8, "node0", 29500)
BOTH = World("mpi", "", (1, 1), None, 2, 1, 1, 2, "127.0.0.1", 29500)
APART = World("mpi", "", (2, 2), None, 1, 1, 0, 2, "node0", 29500)


def scene(world: World, machine: Machine, **environ: str) -> Scene:
    return Scene(world, machine, CCL, True, lambda: "eth0", lambda path: False, environ)


@pytest.mark.parametrize(("cpus", "is_own"), [("0-54", True), ("0-55", False), ("0-13", True)])
def test_processors_that_are_too_few_for_all_tasks_are_those_of_one(cpus: str, is_own: bool) -> None:
    found = scene(STEP, look_at(Box(2, 28, 2), cpus=cpus), SLURM_STEP_NUM_TASKS="8", SLURM_CPUS_PER_TASK="14")
    assert is_slurms_own(found) is is_own


@pytest.mark.parametrize(
    ("world", "places", "threads"),
    [(APART, "0,1,2", 5), (BOTH, "0,1,2", 2), (BOTH, "0,1", 3), (BOTH, "0", 3), (APART, "0,8", 7), (BOTH, "99", 4)],
)
def test_ranks_that_share_cores_share_what_workers_take_of_them(world: World, places: str, threads: int) -> None:
    found = divide_cores(scene(world, look_at(Box(1, 8, 2)), CCL_WORKER_AFFINITY=places))
    assert found.threads == str(threads)


@pytest.mark.parametrize(
    ("world", "cores", "count", "places"),
    [
        (BOTH, 2, "1", None),
        (BOTH, 3, "1", None),
        (BOTH, 4, "1", "0,2"),
        (BOTH, 4, "2", None),
        (APART, 1, "1", None),
        (APART, 2, "1", "0"),
        (APART, 2, "2", None),
    ],
)
def test_workers_are_pinned_where_a_rank_keeps_a_core(world: World, cores: int, count: str, places: str | None) -> None:
    found = scene(world, look_at(Box(1, cores)), CCL_WORKER_COUNT=count, CCL_WORKER_OFFLOAD="1")
    assert divide_cores(found).worker_cpus == places


@pytest.mark.parametrize(
    ("python", "bound"), [("3.9", True), ("3.11", True), ("3.13", True), ("3.14", False), ("3.15", False)]
)
def test_no_thread_is_bound_where_workers_of_a_dataloader_would_inherit_its_processor(python: str, bound: bool) -> None:
    alone = World("alone", "", (1, 1), None, 1)
    stack = CCL._replace(backend="gloo", python=python)
    found = scene(alone, look_at(Box(1, 8)))._replace(stack=stack, exists=lambda path: True)
    assert (divide_cores(found).affinity is not None) == bound
