"""Steps of Slurm, and its lists of nodes and of tasks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.errors import Refusal
from entrypoint.world.slurm import count_tasks, find_first_host, find_job, first_host, gave_pmi, is_in_step
from entrypoint.world.table import detect, read_world
from tests.support.launchers import left_by


def test_slurm_names_the_first_node_as_master() -> None:
    assert read_world(left_by("slurm-step"), detect(left_by("slurm-step")), None).master == "n03"


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [
        ("node1", "node1"),
        ("a,b", "a"),
        ("node[003-007,9],x", "node003"),
        ("login1,n[1-2]", "login1"),
        ("", ""),
        ("rack[0-1]n[0-3]", "rack0n0"),
        ("rack[2,4-5]n[08-11]-ib,x[1-2]", "rack2n08-ib"),
        ("n[5,1-3]", "n5"),
        (" n[01-02] ", "n01"),
        ("a-b[3]c", "a-b3c"),
        ("n[", "n"),
        ("n]", "n]"),
    ],
)
def test_the_first_host_of_a_list_is_found(nodelist: str, host: str) -> None:
    assert first_host(nodelist) == host


@pytest.mark.parametrize(
    "more", [{"SLURM_HOSTFILE": "/hosts"}, {"SLURM_DISTRIBUTION": "arbitrary"}, {"SLURM_ARBITRARY_NODELIST": "b,a"}]
)
def test_no_node_is_guessed_in_an_order_that_nobody_knows(more: dict[str, str]) -> None:
    environ = {**left_by("slurm-step"), **more}
    with pytest.raises(Refusal, match="MASTER_ADDR is not set"):
        read_world(environ, detect(environ), None)
    assert read_world({**environ, "MASTER_ADDR": "b"}, detect(environ), None).master == "b"


NUMBERS = st.integers(0, 120)
RANGE = st.builds(lambda low, more, width: (low, low + more, width), NUMBERS, st.integers(0, 3), st.integers(0, 4))
RANGES = st.lists(RANGE, min_size=1, max_size=3)
NAMES = st.from_regex(r"[a-z]([a-z-]{0,3}[a-z])?", fullmatch=True)
HOSTS = st.lists(st.tuples(NAMES, st.lists(st.tuples(RANGES, NAMES | st.just("")), max_size=3)), min_size=1, max_size=3)
Ranges = list[tuple[int, int, int]]


def write_ranges(ranges: Ranges) -> str:
    return ",".join(f"{low:0{width}}" + ("" if low == high else f"-{high:0{width}}") for low, high, width in ranges)


def expand(hosts: list[tuple[str, list[tuple[Ranges, str]]]]) -> list[str]:
    """List every host of lists that are known by their parts, as scontrol show hostnames does."""
    found = []
    for name, parts in hosts:
        numbers = [
            [f"{number:0{width}}{rest}" for low, high, width in ranges for number in range(low, high + 1)]
            for ranges, rest in parts
        ]
        found += [name + "".join(each) for each in itertools.product(*numbers)]
    return found


@given(HOSTS)
def test_the_first_host_is_that_of_the_whole_list(hosts: list[tuple[str, list[tuple[Ranges, str]]]]) -> None:
    text = ",".join(name + "".join(f"[{write_ranges(each)}]{rest}" for each, rest in parts) for name, parts in hosts)
    assert first_host(text) == expand(hosts)[0]


@given(st.text(alphabet="n[]-,01 x", max_size=30))
def test_any_list_has_a_first_host(text: str) -> None:
    assert "," not in first_host(text)


@pytest.mark.parametrize(
    ("text", "node", "size", "count"),
    [
        ("2(x2)", "1", 4, 2),
        ("3,1", "0", 4, 3),
        ("3,1", "1", 4, 1),
        ("2(x2),1", "2", 5, 1),
        ("2(x2),1", "3", 5, None),
        ("3,1", "0", 5, None),
        ("3,1", "", 4, None),
        ("", "0", 4, None),
        ("x", "0", 4, None),
        ("1(x999999999)", "7", 999999999, 1),
        ("0,4", "0", 4, None),
    ],
)
def test_the_tasks_of_a_node_are_counted(text: str, node: str, size: int, count: int | None) -> None:
    assert count_tasks({"SLURM_STEP_TASKS_PER_NODE": text, "SLURM_NODEID": node}, size) == count


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, "SLURM_JOB_ID=7.0"),
        ({"SLURM_JOB_ID": "7"}, "SLURM_JOB_ID=7"),
        ({"SLURM_JOB_ID": "8", "SLURM_HET_JOB_ID": "7", "SLURM_STEP_ID": "1"}, "SLURM_HET_JOB_ID=7"),
        ({"SLURM_STEP_ID": "1"}, ""),
    ],
)
def test_name_of_a_step(environ: dict[str, str], job: str) -> None:
    assert find_job(environ) == job


def test_components_of_a_heterogeneous_step_have_lists_of_their_own() -> None:
    more = {"SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_STEP_NUM_TASKS": "3"}
    environ = {**left_by("slurm-step"), **more, "SLURM_PROCID": "2", "SLURM_NTASKS": "3"}
    world = read_world(environ, detect(environ), None)
    assert (world.rank, world.size, world.local_size, world.nodes) == (2, 3, 2, (2, 2))


@pytest.mark.parametrize(
    ("more", "ours"),
    [
        ({}, True),
        ({"MPI_LOCALNRANKS": "2"}, False),
        ({"PMI_RANK": "2"}, False),
        ({"PMI_SIZE": "8"}, False),
    ],
)
def test_pmi_is_that_of_the_step_or_of_hydra(more: dict[str, str], ours: bool) -> None:
    assert gave_pmi({**left_by("slurm-step", "slurm-pmi2"), **more}) == ours


@pytest.mark.parametrize(
    ("step", "tasks", "inside"),
    [("0", "1", True), ("4294967290", "1", False), ("4294967291", "1", False), ("0", "", False), ("", "1", False)],
)
def test_the_shell_of_salloc_is_no_step(step: str, tasks: str, inside: bool) -> None:
    assert is_in_step({"SLURM_STEP_ID": step, "SLURM_STEP_NUM_TASKS": tasks}) == inside


@pytest.mark.parametrize(
    ("more", "inside"),
    [
        ({}, True),
        ({"SLURM_JOB_NUM_NODES": "2", "ENVIRONMENT": "BATCH"}, True),  # srun -n1 in a batch script
        ({"SLURM_NTASKS": "2"}, False),
        ({"SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2"}, False),
        ({"SLURM_NTASKS": "", "SLURM_NNODES": "x"}, True),
    ],
)
def test_a_job_that_was_submitted_within_a_step_is_no_step(more: dict[str, str], inside: bool) -> None:
    assert is_in_step({**left_by("slurm-one-task"), **more}) == inside


HET = {
    "SLURM_HET_SIZE": "2", "SLURM_STEP_NODELIST": "n[03-04]", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "n04", "SLURM_JOB_NODELIST_HET_GROUP_1": "n03",
}  # fmt: skip
SIZES = {"SLURM_JOB_NUM_NODES_HET_GROUP_0": "1", "SLURM_JOB_NUM_NODES_HET_GROUP_1": "1"}


@pytest.mark.parametrize(
    ("environ", "host"),
    [
        (HET, "n04"),
        ({**HET, **SIZES}, "n04"),
        ({name.replace("HET_GROUP", "PACK_GROUP"): value for name, value in HET.items()}, "n04"),
        ({**HET, **SIZES, "SLURM_STEP_NODELIST": "n03", "SLURM_STEP_NUM_NODES": "1"}, "n03"),  # --het-group=1
        ({**HET, **SIZES, "SLURM_JOB_NUM_NODES_HET_GROUP_1": "4"}, ""),  # some components of several
        ({**HET, "SLURM_JOB_NODELIST_HET_GROUP_0": ""}, "n03"),
    ],
)
def test_rank_0_of_a_heterogeneous_step_is_on_its_first_component(environ: dict[str, str], host: str) -> None:
    assert find_first_host(environ) == host
