"""The ranks of a torchrun: which have cores of their own, and what becomes of the user's binding of threads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.machine.cpus import Machine
from multinode_image.machine.image import Stack
from multinode_image.reading import read_cpus, write_cpus
from multinode_image.settings import MARK
from multinode_image.tuning import handover
from multinode_image.tuning.context import Process, Role
from multinode_image.tuning.handover import CORES, Handover, prepare_rank, read_handover
from multinode_image.tuning.threads import Node
from multinode_image.tuning.variables import tune
from multinode_image.world.model import World
from tests.support.machines import Box, cpuset, look_at, pod
from tests.support.starts import CCL, GLOO

TWO, TIGHT = Box(2, 28, 2), look_at(Box(2, 28, 2), pod(8))
ALONE = World("alone", "", local_size=2)
SECOND = World("torchrun-worker", "", (1, 1), None, 2, 1, 1, 2, "127.0.0.1", 29500)
FINE = "granularity=fine,compact,1,0"
TORCHRUN = Process(Role.AGENT, program="torchrun", starter="torchrun", has_file=lambda path: True)
SHELL = TORCHRUN._replace(role=Role.ANY, program="bash", starter="")


def share(
    machine: Machine,
    rank: World,
    world: World = ALONE,
    process: Process = TORCHRUN,
    stack: Stack = GLOO,
    more: Mapping[str, str] = {},
) -> tuple[str, dict[str, str]]:
    """Plan a node, hand its variables to a rank as torchrun does, and return the processors and variables of that."""
    tuned = tune(world, machine, more, stack, process)
    ours = {setting.name: setting.value for setting in tuned.settings if not more.get(setting.name)}
    given = {name: value for name, value in more.items() if name not in tuned.removed}
    marks = ";".join(f"{name}={value}" for name, value in ours.items())
    cpus, environ = prepare_rank({**given, **ours, MARK: marks}, rank, machine.cpus)
    return write_cpus(cpus), environ


@pytest.mark.parametrize(
    ("machine", "rank", "cpus", "threads", "affinity"),
    [
        (look_at(TWO), SECOND, "28-55,84-111", "28", None),
        (look_at(Box(1, 4, 2, paired=True)), SECOND, "4-7", "2", None),
        (look_at(TWO), SECOND._replace(local_rank=0), "28-55,84-111", "28", None),  # --virtual-local-rank
        (look_at(TWO), SECOND._replace(nodes=(2, 2), rank=3, size=4), "28-55,84-111", "28", None),
        (look_at(TWO, cpuset("0-7"), cpus="0-7"), SECOND._replace(nodes=(2, 2), rank=3, size=4), "4-7", "4", None),
        # Under a quota, or with more ranks than cores, nobody has any of its own.
        (TIGHT, SECOND, "0-111", "4", None),
        (look_at(Box(1, 2)), SECOND._replace(local_size=3, size=3), "0-1", "1", None),
        # Threads are bound where they are on several NUMA nodes.
        (look_at(TWO), SECOND._replace(local_size=1, rank=0, size=1), "0-111", "56", FINE),
        (look_at(Box(2, 6, 1, 2)), SECOND._replace(rank=0), "0-5", "6", FINE),
    ],
)
@pytest.mark.parametrize("process", [TORCHRUN._replace(checks_size=True), SHELL], ids=["torchrun", "shell"])
def test_a_rank_has_its_share_of_the_plan(
    machine: Machine, rank: World, cpus: str, threads: str, affinity: str | None, process: Process
) -> None:
    world = ALONE._replace(local_size=rank.local_size) if process.role.trains else ALONE._replace(local_size=1)
    variables, environ = share(machine, rank, world, process)
    assert (variables, environ["OMP_NUM_THREADS"], environ.get("KMP_AFFINITY")) == (cpus, threads, affinity)
    assert f"OMP_NUM_THREADS={threads}" in environ[MARK].split(";")


@pytest.mark.parametrize(
    ("environ", "threads", "affinity"),
    [
        ({}, "27", None),
        ({"CCL_WORKER_COUNT": "4"}, "24", None),
        ({"CCL_WORKER_OFFLOAD": "0"}, "28", FINE),
        ({"OMP_NUM_THREADS": "7"}, "7", None),
    ],
)
def test_workers_of_oneccl_take_cores_from_a_share(environ: dict[str, str], threads: str, affinity: str | None) -> None:
    _, variables = share(look_at(Box(2, 28, 2, 2)), SECOND, stack=CCL, more=environ)
    assert (variables["OMP_NUM_THREADS"], variables.get("KMP_AFFINITY")) == (threads, affinity)


def test_the_only_rank_has_no_worker_of_oneccl() -> None:
    """It exchanges nothing."""
    machine, lone = look_at(Box(1, 28, 2, 1)), SECOND._replace(local_size=1, rank=0, size=1)
    alone = ALONE._replace(local_size=1)
    for rank, process, world, threads in (
        (lone, TORCHRUN, ALONE, "28"), (lone, SHELL, alone, "28"), (lone._replace(size=2), SHELL, alone, "27"),
        (lone._replace(local_size=None), SHELL, alone, "28"),
    ):  # fmt: skip
        assert share(machine, rank, world, process, CCL)[1]["OMP_NUM_THREADS"] == threads


def test_a_value_that_a_script_has_changed_since_stays() -> None:
    node = {setting.name: setting.value for setting in tune(ALONE, look_at(TWO), {}, GLOO, SHELL).settings}
    changed = {**node, "OMP_NUM_THREADS": "3", MARK: "OMP_NUM_THREADS=56"}
    assert prepare_rank(changed, SECOND, look_at(TWO).cpus)[1]["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("mask", "environ", "cpus"),
    [
        ("0-3", {}, "2-3"),
        ("0-3,56-59", {}, "2-3,58-59"),
        ("0-111", {}, "28-55,84-111"),
        ("0", {"OMP_PROC_BIND": "true"}, "28-55,84-111"),  # OpenMP has bound the agent
    ],
)
def test_a_mask_around_a_torchrun_in_a_shell_counts(mask: str, environ: dict[str, str], cpus: str) -> None:
    plan = {setting.name: setting.value for setting in tune(ALONE, look_at(TWO), environ, GLOO, SHELL).settings}
    assert write_cpus(prepare_rank({**environ, **plan}, SECOND, read_cpus(mask))[0]) == cpus


@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 2), st.integers(2, 12), st.integers(0, 24))
def test_every_processor_belongs_to_one_rank(sockets: int, cores: int, threads: int, ranks: int, first: int) -> None:
    """Ranks of nodes with other numbers of processes come first: any numbers in a row do."""
    machine = look_at(Box(sockets, cores, threads))
    node = {setting.name: setting.value for setting in tune(ALONE, machine, {}, GLOO, SHELL).settings}
    worlds = [SECOND._replace(local_size=ranks, rank=first + rank, size=99) for rank in range(ranks)]
    shares = [prepare_rank(node, world, machine.cpus)[0] for world in worlds]
    if ranks <= machine.physical:
        assert sorted(cpu for cpus in shares for cpu in cpus) == sorted(machine.cpus)
    else:
        assert set(shares) == {machine.cpus}


BINDINGS = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0-3", "KMP_AFFINITY": "compact"}
BY_MPI = World("mpi", "", (1, 1), None, 2, 1, 1, 2, "127.0.0.1", 29500)
RANK_OF_MPI, MPIRUN = Process(has_file=lambda path: True), SHELL._replace(program="mpirun", starter="mpirun")


@pytest.mark.parametrize("name", BINDINGS)
@pytest.mark.parametrize(
    ("world", "machine", "process", "kept"),
    [
        (ALONE, look_at(TWO), TORCHRUN, False),
        (ALONE, TIGHT, TORCHRUN, False),
        (World("torchrun", "", (2, 2), 0, 1, master="m"), look_at(TWO), TORCHRUN, False),
        (ALONE._replace(local_size=1), look_at(TWO), TORCHRUN._replace(role=Role.TORCHRUN), False),
        (ALONE._replace(local_size=1), look_at(TWO), SHELL._replace(starter="accelerate"), False),
        (BY_MPI, look_at(TWO, cpus="28-55,84-111", parent="0-111"), RANK_OF_MPI, True),
        (BY_MPI, TIGHT, RANK_OF_MPI, False),
        (BY_MPI, look_at(TWO), RANK_OF_MPI, False),  # nobody has pinned it
        (ALONE, look_at(TWO), MPIRUN, True),
        (ALONE, TIGHT, MPIRUN, False),
        (ALONE._replace(local_size=1), TIGHT, Process(), True),  # one process, whose user wants it so
        (World("torchrun", "", (2, 2), 0, 1, master="m"), TIGHT, SHELL, True),
        (BY_MPI._replace(local_size=1, rank=0, local_rank=0, size=1), TIGHT, RANK_OF_MPI, True),
        (BY_MPI._replace(nodes=(2, 2), local_size=1, local_rank=0), TIGHT, RANK_OF_MPI, False),
    ],
)
def test_no_variable_binds_all_ranks_to_one_core(
    name: str, world: World, machine: Machine, process: Process, kept: bool
) -> None:
    tuned = tune(world, machine, {name: BINDINGS[name]}, GLOO, process)
    assert (name not in tuned.removed) == kept
    assert len(tuned.notes) == (not kept)


@pytest.mark.parametrize(("name", "value"), [("OMP_PROC_BIND", "false"), ("KMP_AFFINITY", "none"), ("OMP_PLACES", "")])
def test_a_variable_that_binds_nothing_is_left_alone(name: str, value: str) -> None:
    tuned = tune(ALONE, TIGHT, {name: value}, GLOO, TORCHRUN)
    assert (tuned.removed, tuned.notes) == (frozenset(), [])


@pytest.mark.parametrize(
    ("process", "world", "machine", "bound"),
    [
        (TORCHRUN, ALONE, look_at(TWO), True),
        (TORCHRUN._replace(program="python3"), World("torchrun", "", (2, 2), local_size=2), look_at(TWO), True),
        (TORCHRUN._replace(program="/venv/bin/torchrun"), ALONE, look_at(TWO), False),  # it has a Python of its own
        (TORCHRUN, ALONE._replace(local_size=1), look_at(TWO), False),
        (TORCHRUN, SECOND, look_at(TWO), False),
        (TORCHRUN._replace(has_file=lambda path: False), ALONE, look_at(TWO), False),
        (SHELL, ALONE, TIGHT, True),  # its ranks count their threads
        *((SHELL._replace(program=f"/usr/bin/{name}"), ALONE._replace(local_size=1), look_at(TWO), True)
          for name in ("bash", "sh", "dash", "env", "nice", "nohup", "numactl", "setsid", "stdbuf", "taskset",
                       "timeout")),
        (SHELL, SECOND, look_at(TWO), False),
        (SHELL._replace(program="true"), ALONE._replace(local_size=1), look_at(TWO), False),
        (SHELL._replace(program="mpirun", role=Role.STARTER), ALONE, look_at(TWO), False),
    ],
)  # fmt: skip
def test_which_ranks_are_started_by_our_program(process: Process, world: World, machine: Machine, bound: bool) -> None:
    variables = {setting.name: setting.value for setting in tune(world, machine, {}, GLOO, process).settings}
    assert (CORES in variables) is bound


VALUES = st.text() | st.integers() | st.booleans() | st.none() | st.lists(st.text())


@given(st.text() | st.dictionaries(st.sampled_from([*Node._fields, *Handover._fields]), VALUES).map(json.dumps))
def test_any_text_may_stand_in_the_place_of_the_plan(text: str) -> None:
    if read_handover(text) is None:
        assert prepare_rank({CORES: text, "A": "1"}, SECOND, frozenset()) == (frozenset(), {CORES: text, "A": "1"})


@pytest.mark.parametrize(("numa", "cores"), [(["0 1"], 2), (["0 x"], None), (["0 1", ""], 2), ([], None)])
def test_a_plan_in_which_a_core_has_no_processor_is_none(numa: list[str], cores: int | None) -> None:
    handover = read_handover(json.dumps({"numa": numa, "most": 2, "exclusive": True, "workers": 0, "bind": False}))

    assert (None if handover is None else len(handover.node.cores)) == cores


@pytest.mark.parametrize("error", [None, OSError(22, "Invalid argument")])
def test_a_rank_becomes_python_on_its_cores(error: OSError | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or on all that are left, if the container has others by now."""
    bind, become = mock.Mock(side_effect=error), mock.Mock()
    monkeypatch.setattr(handover, "prepare_rank", lambda environ, world, cpus: (cpus - {0}, {**environ, "B": "2"}))
    monkeypatch.setattr(handover, "become", become)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {pid, 3})
    monkeypatch.setattr("os.sched_setaffinity", bind)

    handover.start_rank(["-u", "x.py"], {"A": "1"}, SECOND)

    assert bind.mock_calls == [mock.call(0, {3})]
    assert become.mock_calls == [mock.call("python3", ["python3", "-u", "x.py"], {"A": "1", "B": "2"})]
