"""How many processes a node gets, and which of them train."""

from __future__ import annotations

import pytest

from entrypoint.tuning.scene import is_isolated, is_training, spread_processes, warn_idle_cores, warn_shared_cores
from entrypoint.world.model import World
from tests.support.machines import Box, look_at, pod

ALONE, BOTH = World("alone", ""), World("mpi", "", (1, 1), None, 2, 1, 1, 2, "127.0.0.1", 29500)
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "0"}
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
def test_a_node_runs_a_process_for_each_numa_node(world: World, box: Box, limit: dict[str, str], count: int) -> None:
    assert spread_processes(world, look_at(box, limit)).local_size == count


@pytest.mark.parametrize(
    ("launcher", "job", "expected"),
    [("alone", False, False), ("alone", True, True), ("mpi", False, True), ("mpijob-launcher", False, False)],
)
def test_ranks_and_trainings_train(launcher: str, job: bool, expected: bool) -> None:
    assert is_training(World(launcher, ""), job=job) is expected


@pytest.mark.parametrize(("count", "says"), [(1, False), (2, False), (3, True)])
def test_processes_that_share_cores_are_noted(count: int, says: bool) -> None:
    assert bool(warn_shared_cores(ALONE._replace(local_size=count), look_at(SMALL))) == says
    assert not warn_shared_cores(BOTH._replace(local_size=count), look_at(SMALL))


@pytest.mark.parametrize(
    ("world", "threads", "count"),
    [
        (ALONE, 7, 2),
        (ALONE, 28, 2),
        (ALONE, 56, 1),
        (ALONE, 240, 1),
        (ALONE._replace(local_size=2), 240, 2),
        (World("torchrun", "", (2, 2)), 56, 1),
    ],
)
def test_the_user_s_threads_count_in_the_number_of_processes(world: World, threads: int, count: int) -> None:
    assert spread_processes(world, look_at(TWO), threads).local_size == count


@pytest.mark.parametrize("world", [ALONE, ALONE._replace(local_size=3), World("torchrun", "", (2, 2), local_size=4)])
def test_a_command_that_starts_nothing_is_one_process(world: World) -> None:
    assert spread_processes(world, look_at(TWO), starts=False).local_size == 1


@pytest.mark.parametrize(
    ("world", "threads", "says"),
    [
        (ALONE._replace(local_size=2), 28, ""),
        (ALONE._replace(local_size=2), 240, "OMP_NUM_THREADS=28 fits"),
        (World("torchrun", "", (2, 2), local_size=56), None, "one thread each"),
        (World("torchrun", "", (2, 2), local_size=28), None, ""),
    ],
)
def test_threads_that_do_not_fit_are_noted(world: World, threads: int | None, says: str) -> None:
    assert says in "".join(warn_shared_cores(world, look_at(TWO), threads))
    assert bool(warn_shared_cores(world, look_at(TWO), threads)) == bool(says)


@pytest.mark.parametrize(
    ("world", "cpus", "says"),
    [
        (BOTH, "0", True),
        (BOTH._replace(local_size=1), "0", True),
        (BOTH, "0-13", True),
        (BOTH, "0-27", False),
        (BOTH._replace(local_size=28), "0-1", False),
        (World("slurm", "", (1, 1), None, 1, 0, 0, 1), "0", False),
    ],
)
def test_ranks_that_mpi_has_bound_to_few_cores_are_noted(world: World, cpus: str, says: bool) -> None:
    machine = look_at(TWO, cpus=cpus, parent="0-111")

    assert any("; to use them all: " in note for note in warn_idle_cores(world, machine, OPEN_MPI)) == says


@pytest.mark.parametrize(
    ("environ", "way"),
    [
        (OPEN_MPI, "; to use them all: mpirun --bind-to none (Open MPI)"),
        ({"PMI_RANK": "0"}, "; to use them all: mpirun -bind-to none (MPICH)"),
        ({"PMI_RANK": "0", "I_MPI_HYDRA_UUID": "1"}, "; to use them all: export I_MPI_PIN=0 (Intel MPI)"),
        (
            {"PMI_RANK": "0", "SLURM_JOB_ID": "7"},
            "; to use them all: --cpus-per-task or --exclusive of the job, and mpirun -bind-to none (MPICH)",
        ),
        (
            {**OPEN_MPI, "SLURM_JOB_ID": "7"},
            "; to use them all: --cpus-per-task or --exclusive of the job, and mpirun --bind-to none (Open MPI)",
        ),
        ({"MV2_COMM_WORLD_RANK": "0"}, ""),
    ],
)
def test_ranks_are_unbound_as_their_own_mpi_does_it(environ: dict[str, str], way: str) -> None:
    bound = "2 rank(s) of this node are bound to 1 core(s) each, and it has 56"
    assert warn_idle_cores(BOTH, look_at(TWO, cpus="0", parent="0-111"), environ) == [bound + way]


HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT   \n"
ZERO = "0" * 32


@pytest.mark.parametrize(
    ("routes", "routes6", "isolated"),
    [
        (HEAD, "", True),
        (HEAD, None, True),
        (HEAD, f"{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 00000001 00000000 00200200       lo\n", True),
        (HEAD + "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", "", False),
        (HEAD, f"fd77{ZERO[4:]} 40 {ZERO} 00 {ZERO} 00000100 00000001 00000000 00000001     eth0\n", False),
        (None, None, False),
    ],
)
def test_a_container_without_a_route_has_no_network(routes: str | None, routes6: str | None, isolated: bool) -> None:
    assert is_isolated(routes, routes6) is isolated
