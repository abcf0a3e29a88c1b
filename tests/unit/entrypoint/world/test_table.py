"""Environments of launchers, and what is concluded from them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.machine.processors import Machine
from entrypoint.numbers import whole
from entrypoint.tuning.scene import Scene, is_training, spread_processes
from entrypoint.tuning.variables import set_rank_variables, tune_variables
from entrypoint.world.signs import check_alone
from entrypoint.world.slurm import is_in_step
from entrypoint.world.table import detect, read_world
from tests.support.environments import ENVIRONMENTS
from tests.support.launchers import left_by


@pytest.mark.parametrize(
    ("left", "more", "kind"),
    [
        ((), {}, "alone"),
        ((), {"RANK": "0"}, "alone"),
        ((), {"MASTER_ADDR": "127.0.0.1"}, "alone"),
        (("slurm-batch",), {}, "alone"),
        (("slurm-one-task",), {}, "alone"),
        (("pytorchjob-workers",), {}, "alone"),
        (("prterun-0",), {}, "alone"),
        (("intel-mpi-0",), {}, "mpi"),
        (("intel-mpi-two-hosts-1",), {}, "mpi"),
        (("mpich-1",), {}, "mpi"),
        (("open-mpi-1",), {}, "mpi"),
        (("mvapich2",), {}, "mpi"),
        (("torchrun-worker",), {}, "torchrun-worker"),
        (("slurm-step",), {}, "slurm"),
        (("slurm-step", "slurm-pmix"), {}, "slurm"),
        (("slurm-step", "slurm-pmi2"), {}, "slurm"),
        (("pytorchjob-master",), {}, "torchrun"),
        (("pytorchjob-elastic",), {}, "torchrun"),
        (("pytorchjob-elastic-master",), {}, "torchrun"),
        (("trainer-v2",), {}, "torchrun"),
        ((), {"MASTER_ADDR": "a", "RANK": "1", "WORLD_SIZE": "2"}, "torchrun"),
        ((), {"MASTER_ADDR": "a", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "torchrun-worker"),
        (("mpijob-launcher-intel",), {}, "mpijob-launcher"),
        (("mpijob-launcher-open",), {}, "mpijob-launcher"),
        (("mpijob-worker",), {}, "mpijob-worker"),
        # One inside the other, the innermost last: its variables are the ones that count.
        (("mpijob-worker", "intel-mpi-1"), {}, "mpi"),
        (("mpijob-launcher-open", "open-mpi-1"), {}, "mpi"),
        (("pytorchjob-master", "intel-mpi-1"), {}, "mpi"),
        (("pytorchjob-elastic", "mpich-1"), {}, "mpi"),
        (("trainer-v2", "open-mpi-0"), {}, "mpi"),
        (("pytorchjob-master", "torchrun-worker"), {}, "torchrun-worker"),
        (("trainer-v2", "torchrun-worker"), {}, "torchrun-worker"),
        (("slurm-batch", "intel-mpi-1"), {}, "mpi"),
        (("slurm-batch", "open-mpi-1"), {}, "mpi"),
        (("slurm-one-task", "pytorchjob-elastic"), {}, "torchrun"),
        (("slurm-step", "torchrun-worker"), {}, "torchrun-worker"),
        (("intel-mpi-two-hosts-1", "torchrun-worker"), {}, "torchrun-worker"),
    ],
)
def test_a_launcher_is_known_by_its_variables(left: tuple[str, ...], more: dict[str, str], kind: str) -> None:
    assert detect({**left_by(*left), **more}).kind == kind


# Numbers that speak of a world of more than one, read from any of these names without knowing the table of signs.
WORLDS = ("WORLD_SIZE", "PET_NNODES", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS",
          "SLURM_STEP_NUM_TASKS", "SLURM_JOB_NUM_NODES")  # fmt: skip
# In a step these are not ours: the step says how many tasks it has.
OF_A_JOB = ("SLURM_NTASKS", "SLURM_JOB_NUM_NODES")
RANKS = ("RANK", "LOCAL_RANK", "PET_NODE_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK",
         "PMIX_RANK", "SLURM_PROCID")  # fmt: skip
STACK = Stack("2.4.0+cpu", "4.46.0", "3.11", "ccl", None, "/usr/lib/python3")
MACHINES = st.sampled_from(
    [
        Machine(frozenset({0, 1}), 2, 1, 1, (frozenset({0, 1}),), 1.5, False),
        Machine(frozenset(range(56)), 56, 56, 2, (frozenset(range(28)), frozenset(range(28, 56))), None, False),
    ]
)


@settings(max_examples=400)
@given(ENVIRONMENTS, MACHINES, st.sampled_from([None, 1, 3]))
def test_any_environment_gives_a_decision_or_the_one_error(
    environ: dict[str, str], machine: Machine, nproc: int | None
) -> None:
    try:
        world = spread_processes(read_world(environ, detect(environ), nproc), machine)
        check_alone(environ, world)
        scene = Scene(world, machine, STACK, is_training(world, job=True), lambda: "eth0", lambda path: True, environ)
        rows = [*tune_variables(scene), *set_rank_variables(world, environ)]
    except Refusal as refusal:
        assert refusal.fact and refusal.value and refusal.remedy and refusal.code == 2
        return
    assert all(row.name and row.value for row in rows)
    low, high = world.sizes
    assert 1 <= low <= high
    if world.rank is not None:
        assert 0 <= world.rank < high
    if world.launcher == "alone":
        counted = [name for name in WORLDS if name not in OF_A_JOB or not is_in_step(environ)]
        assert not [name for name in counted if (whole(environ.get(name, "")) or 0) > 1]
        assert not [name for name in RANKS if (whole(environ.get(name, "")) or 0) > 0]


@pytest.mark.parametrize(
    ("left", "remedy"), [("slurm-step", "srun --ntasks-per-node N"), ("intel-mpi-1", "mpirun -n N")]
)
def test_the_number_of_processes_is_for_the_launcher_that_started_them(left: str, remedy: str) -> None:
    environ = left_by(left)
    with pytest.raises(Refusal) as caught:
        read_world(environ, detect(environ), 2)
    assert remedy in caught.value.remedy
