"""How many processes a node gets, and where one core more or less decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.errors import Refusal
from entrypoint.machine.cpus import Machine
from entrypoint.machine.image import Stack
from entrypoint.tuning.threads import (
    Context,
    Process,
    divide_cores,
    is_slurms_own,
    pin_ranks,
    read_threads,
    set_local_size,
    split,
    warn_cores,
)
from entrypoint.world.model import World
from tests.support.machines import Box, look_at, pod

CCL = Stack("2.4.0+cpu", "4.46.0", "3.11", "ccl", None, "/site")
ALONE, PODS = World("alone", ""), World("torchrun", "", (2, 2))
STEP = World("slurm", "", (2, 2), None, 4, 1, 1, 8, "node0", 29500)
BOTH = World("mpi", "", (1, 1), None, 2, 1, 1, 2, "127.0.0.1", 29500)
APART = World("mpi", "", (2, 2), None, 1, 1, 0, 2, "node0", 29500)
SMALL, TWO = Box(1, 2), Box(2, 28, 2)


def context(world: World, machine: Machine, **environ: str) -> Context:
    return Context(world, machine, environ, CCL, Process())


@pytest.mark.parametrize(
    ("world", "machine", "threads", "starts", "count"),
    [
        (ALONE, look_at(SMALL), None, True, 1),
        (ALONE, look_at(TWO), None, True, 2),
        (ALONE, look_at(TWO, pod(8)), None, True, 1),
        (ALONE._replace(local_size=3), look_at(TWO), None, True, 3),
        (PODS, look_at(TWO), None, True, 2),
        (World("mpijob-worker", ""), look_at(TWO), None, True, 1),
        (ALONE, look_at(TWO), 28, True, 2),
        (ALONE, look_at(TWO), 56, True, 1),  # the user's threads need cores
        (ALONE, look_at(TWO), 240, True, 1),
        (ALONE._replace(local_size=2), look_at(TWO), 240, True, 2),
        (PODS, look_at(TWO), 56, True, 1),
        (ALONE, look_at(TWO), None, False, 1),  # what starts nothing is one process
        (ALONE._replace(local_size=3), look_at(TWO), None, False, 1),
        (PODS._replace(local_size=4), look_at(TWO), None, False, 1),
    ],
)
def test_how_many_processes_a_node_gets(
    world: World, machine: Machine, threads: int | None, starts: bool, count: int
) -> None:
    assert set_local_size(world, machine, threads, starts=starts).local_size == count


BOUND = look_at(TWO, cpus="0", parent="0-111")


@pytest.mark.parametrize(
    ("world", "machine", "threads", "says"),
    [
        (ALONE._replace(local_size=2), look_at(SMALL), None, ""),
        (ALONE._replace(local_size=3), look_at(SMALL), None, "3 processes on 2 core(s)"),
        (ALONE._replace(local_size=2), look_at(TWO), 28, ""),
        (ALONE._replace(local_size=2), look_at(TWO), 240, "OMP_NUM_THREADS=28 fits"),
        (PODS._replace(local_size=56), look_at(TWO), None, "one thread each"),
        (PODS._replace(local_size=28), look_at(TWO), None, ""),
        (BOTH._replace(local_size=3), look_at(SMALL), None, ""),
        (BOTH, BOUND, None, "bound to 1 core(s) each, and it has 56"),
        (BOTH, look_at(TWO, cpus="0-13", parent="0-111"), None, "to use them all"),
        (BOTH, look_at(TWO, cpus="0-27", parent="0-111"), None, ""),
        (World("slurm", "", (1, 1), None, 1, 0, 0, 1), BOUND, None, ""),
    ],
)
def test_cores_that_are_shared_or_idle_are_noted(
    world: World, machine: Machine, threads: int | None, says: str
) -> None:
    notes = warn_cores(world, machine, threads)
    assert len(notes) == bool(says) and says in "".join(notes)


@pytest.mark.parametrize(
    ("text", "count"), [("", None), (" ", None), ("2", 2), ("4,2", 4), (" 4, 2 ", 4), ("007", 7), ("4096", 4096)]
)
def test_numbers_that_openmp_reads(text: str, count: int | None) -> None:
    assert read_threads({"OMP_NUM_THREADS": text}) == count


@pytest.mark.parametrize("text", ['"1"', "'2'", "two", "0", "-1", "1.5", "4,", "4,0", "$(CPUS)", "4 2"])
def test_numbers_that_openmp_would_not_read_are_refused(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_threads({"OMP_NUM_THREADS": text})
    assert (caught.value.code, caught.value.value) == (2, repr(text))


@pytest.mark.parametrize(("cpus", "is_own"), [("0-54", True), ("0-55", False), ("0-13", True)])
def test_processors_that_are_too_few_for_all_tasks_are_those_of_one(cpus: str, is_own: bool) -> None:
    found = context(STEP, look_at(TWO, cpus=cpus), SLURM_STEP_NUM_TASKS="8", SLURM_CPUS_PER_TASK="14")
    assert is_slurms_own(found) is is_own


@pytest.mark.parametrize(
    ("world", "places", "threads"),
    [(APART, "0,1,2", 5), (BOTH, "0,1,2", 2), (BOTH, "0,1", 3), (BOTH, "0", 3), (APART, "0,8", 7), (BOTH, "99", 4)],
)
def test_ranks_that_share_cores_share_what_workers_take_of_them(world: World, places: str, threads: int) -> None:
    found = divide_cores(context(world, look_at(Box(1, 8, 2)), CCL_WORKER_AFFINITY=places))
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
    found = context(world, look_at(Box(1, cores)), CCL_WORKER_COUNT=count, CCL_WORKER_OFFLOAD="1")
    assert divide_cores(found).worker_cpus == places


@pytest.mark.parametrize(("python", "bound"), [("3.9", True), ("3.13", True), ("3.14", False), ("3.15", False)])
def test_no_thread_is_bound_where_workers_of_a_dataloader_would_inherit_its_processor(python: str, bound: bool) -> None:
    alone = context(ALONE._replace(local_size=1), look_at(Box(1, 8)))
    found = alone._replace(stack=CCL._replace(python=python), process=Process(has_file=lambda path: True))
    assert (divide_cores(found).affinity is not None) == bound


W1, W4 = {"CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": "1"}, {"CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": "4"}


@pytest.mark.parametrize(
    ("machine", "ranks", "environ", "cpus", "masks"),
    [
        # IPEX's own example (cpu/launch/launcher_distributed.py): two sockets of 28 cores, four workers.
        (look_at(TWO), 2, W4, "0,1,2,3,28,29,30,31", "[0xffffff0,0xffffff00000000]"),
        # The guide's (huggingface/blog, accelerating-pytorch): 32 cores, one rank, four workers.
        (look_at(Box(1, 32, 2)), 1, W4, "0,1,2,3", "[0xfffffff0]"),
        (look_at(Box(1, 5)), 2, W1, "0,2", "[0x2,0x18]"),
        (look_at(Box(1, 4, 2, paired=True)), 2, W1, "0,4", "[0x4,0x40]"),
        (look_at(TWO, cpus="8-11"), 2, W1, "8,10", "[0x200,0x800]"),
        (look_at(TWO), 2, {"CCL_WORKER_COUNT": "1"}, None, None),  # gloo: hydra's own division is right
        (look_at(TWO), 2, {"CCL_ROOT": "/ccl"}, None, None),
        (look_at(TWO), 999_999_999, W1, None, None),
        (look_at(TWO), 56, W1, None, None),
        (look_at(TWO, pod(8)), 2, W1, None, None),
        (look_at(TWO), 2, {**W1, "I_MPI_PIN_DOMAIN": "socket"}, None, None),
        (look_at(TWO), 2, {**W1, "CCL_WORKER_AFFINITY": "auto"}, None, None),
    ],
)
def test_ranks_of_hydra_and_workers_of_oneccl_get_cores_of_their_own(
    machine: Machine, ranks: int, environ: dict[str, str], cpus: str | None, masks: str | None
) -> None:
    found = pin_ranks(machine, ranks, environ)
    assert (found.get("CCL_WORKER_AFFINITY"), found.get("I_MPI_PIN_DOMAIN")) == (cpus, masks)


@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 2), st.integers(1, 30), st.integers(1, 3))
def test_every_core_belongs_to_one_rank(sockets: int, cores: int, threads: int, ranks: int, workers: int) -> None:
    machine = look_at(Box(sockets, cores, threads))
    shares = split(machine, ranks)
    assert sorted(cpu for share in shares for cpu in share) == list(range(sockets * cores))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    found = pin_ranks(machine, ranks, {"CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": str(workers)})
    if found:
        masks = [int(mask, 16) for mask in found["I_MPI_PIN_DOMAIN"][1:-1].split(",")]
        places = [int(cpu) for cpu in found["CCL_WORKER_AFFINITY"].split(",")]
        assert all(masks)
        assert sum(masks) + sum(1 << cpu for cpu in places) == (1 << sockets * cores) - 1
