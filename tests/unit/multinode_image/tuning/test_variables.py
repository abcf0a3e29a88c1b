"""Worlds on machines, worked out by hand: how many ranks a node gets, and the variables of each."""

from __future__ import annotations

import subprocess
from pathlib import Path
from unittest import mock

import pytest

from multinode_image.errors import Refusal
from multinode_image.hooks.job.one_job import count_meant
from multinode_image.machine.cpus import Machine
from multinode_image.machine.image import Stack
from multinode_image.settings import SIZE, Setting
from multinode_image.tuning.context import Process, Role, read_threads, set_local_size
from multinode_image.tuning.variables import SOURCE, find_node, set_rank_variables, settle_size, take_setvars, tune
from multinode_image.world.model import MPI, World
from multinode_image.world.table import detect
from tests.support.machines import Box, cpuset, look_at, pod
from tests.support.starts import CCL, GLOO

TCMALLOC, OPENMP = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", "/usr/local/lib/libiomp5.so"
ALL = {TCMALLOC, OPENMP, "/usr/local/bin/mpiexec.hydra", "/usr/local/lib/libtcp-fi.so"}
ALONE = World("alone", "")
PODS = World("torchrun", "", (2, 2), 0, None, master="node0", port=29500)
RANK = World("mpi", "", (2, 2), None, 1, 1, 0, 2, "node0", 29500)
BOTH = World("mpi", "", (1, 1), None, 2, 1, 1, 2, "127.0.0.1", 29500)
FOUR = BOTH._replace(size=4, local_size=4)
PAIR, LONE = ALONE._replace(local_size=2), ALONE._replace(local_size=1)


def values(
    world: World,
    machine: Machine,
    stack: Stack = GLOO,
    *,
    environ: dict[str, str] | None = None,
    image: set[str] | None = None,
    role: Role = Role.AGENT,
    interface: str | None = "eth7",
) -> dict[str, str]:
    world = set_local_size(world, machine, starts=role.trains)
    exists = (ALL if image is None else image).__contains__
    process = Process(role, find_interface=lambda: interface, has_file=exists)
    tuned = tune(world, machine, environ or {}, stack, process)
    return {"ranks": str(world.local_size), **{setting.name: setting.value for setting in tuned.settings}}


SMALL, ONE, TWO = Box(1, 2), Box(1, 28, 2), Box(2, 28, 2)
SNC, HOST, ARM = Box(2, 56, 2, 4), Box(2, 60, 2), Box(1, 64)
FINE = "granularity=fine,compact,1,0"
# Hydra gives each of two ranks a socket, both hardware threads of a core.
SOCKET = look_at(TWO, cpus="28-55,84-111", parent="0-111")
TIGHT = look_at(HOST, pod(32))
CPUSET = look_at(ONE, cpuset("4-27,32-55"), cpus="4-27,32-55")


@pytest.mark.parametrize(
    ("world", "machine", "threads", "starts", "count"),
    [
        (ALONE, look_at(SMALL), None, True, 1),
        (ALONE, look_at(TWO), None, True, 2),
        (ALONE, look_at(SNC), None, True, 8),
        (ALONE, look_at(TWO, pod(8)), None, True, 1),
        (ALONE._replace(local_size=3), look_at(TWO), None, True, 3),
        (PODS, look_at(TWO), None, True, 2),
        (World("mpijob-worker", ""), look_at(TWO), None, True, 1),
        (ALONE, look_at(TWO), 28, True, 2),
        (ALONE, look_at(TWO), 56, True, 1),  # the user's threads need cores
        (ALONE, look_at(TWO), 240, True, 1),
        (ALONE, look_at(TWO, pod(30)), 20, True, 1),  # of which the quota has cores for one rank
        (ALONE, look_at(SNC, cpus="0-55,112-167", parent="0-223"), 28, True, 2),  # bound to one of two sockets
        (PAIR, look_at(TWO), 240, True, 2),
        (PODS._replace(local_size=4), look_at(TWO), None, False, 1),  # what starts nothing is one process
    ],
)
def test_how_many_ranks_a_node_gets(
    world: World, machine: Machine, threads: int | None, starts: bool, count: int
) -> None:
    assert set_local_size(world, machine, threads, starts=starts).local_size == count


@pytest.mark.parametrize(
    ("world", "machine", "threads", "bound", "pin"),
    [
        # A rank with the cores of several NUMA nodes keeps each thread beside its memory.
        (LONE, look_at(TWO), "56", FINE, None),
        (LONE, look_at(TWO, cpus="0-27"), "28", None, None),
        (LONE, look_at(TWO, pod(64)), "56", None, "0"),
        (ALONE, look_at(SMALL, pod(0.5)), "1", None, "0"),
        (ALONE._replace(local_size=4), look_at(SMALL), "1", None, None),
        # One of several nodes cannot know whether another is a container on the same host, unless it has a cpuset.
        (PODS._replace(local_size=1), look_at(TWO), "56", None, None),
        (PODS._replace(local_size=1), look_at(TWO, cpuset("4-52"), cpus="4-52"), "49", FINE, None),
        (RANK, look_at(TWO, cpus="0-41", parent="0-111"), "42", FINE, None),
        (BOTH, SOCKET, "28", None, None),
        (BOTH, look_at(SNC, cpus="0-55", parent="0-223"), "56", FINE, None),
        (BOTH, look_at(TWO), "28", None, None),
        # Nobody pinned the ranks (I_MPI_PIN=0), or two of them share a socket: they share its cores.
        (BOTH, look_at(HOST, pod(8), parent="0-239"), "4", None, None),
        (FOUR, SOCKET, "14", None, None),
        (BOTH, look_at(Box(1, 5), cpus="0-2", parent="0-4"), "3", None, None),
        (FOUR, look_at(TWO, cpus="14-27,70-83", parent="0-111"), "14", None, None),
    ],
)
def test_threads_and_binding_follow_from_the_cores(
    world: World, machine: Machine, threads: str, bound: str | None, pin: str | None
) -> None:
    variables = values(world, machine)
    assert (variables["OMP_NUM_THREADS"], variables.get("KMP_AFFINITY"), variables.get("I_MPI_PIN")) == (
        threads,
        bound,
        pin,
    )
    assert not [name for name in variables if name.startswith("CCL_")]


W2, W4, OFF = {"CCL_WORKER_COUNT": "2"}, {"CCL_WORKER_COUNT": "4"}, {"CCL_WORKER_OFFLOAD": "0"}
PUBLISHED = {**W4, "CCL_WORKER_AFFINITY": "0,1,2,3,28,29,30,31"}
GUIDE = {**W4, "CCL_WORKER_AFFINITY": "0,1,2,3,32,33,34,35"}


@pytest.mark.parametrize(
    ("world", "machine", "environ", "threads", "bound", "workers", "offload"),
    [
        (LONE, look_at(TWO), {}, "56", FINE, None, None),
        (ALONE, look_at(SMALL), {}, "2", None, None, None),
        (ALONE, look_at(TWO), {}, "27", None, "0,28", None),
        (ALONE, look_at(TWO), W4, "24", None, "0,1,2,3,28,29,30,31", None),
        (PODS, CPUSET, {}, "23", None, "4", None),
        (PODS, TIGHT, {}, "31", None, None, None),
        # Pinned by hydra as it likes: the rank's first cores are its workers'.
        (BOTH, SOCKET, {}, "27", None, "28,28", None),
        # IPEX's own example: two sockets of 28 cores, I_MPI_PIN_DOMAIN=[0xffffff0,0xffffff00000000].
        (BOTH, look_at(TWO, cpus="32-55", parent="0-111"), PUBLISHED, "24", None, None, None),
        # The guide's: one rank on 32 cores, I_MPI_PIN_DOMAIN=[0xfffffff0], OMP_NUM_THREADS=28.
        (RANK, look_at(Box(1, 32, 2), cpus="4-31", parent="0-63"), GUIDE, "28", None, None, None),
        (RANK, look_at(Box(1, 32, 2)), GUIDE, "28", None, None, None),
        # Ranks that share cores share what workers take of them.
        (RANK, look_at(Box(1, 8, 2)), {"CCL_WORKER_AFFINITY": "0,8"}, "7", None, None, None),
        (BOTH, look_at(Box(1, 8, 2)), {"CCL_WORKER_AFFINITY": "0,1,2"}, "2", None, None, None),
        # A worker needs a core beside those of the threads.
        (RANK, look_at(SMALL), {}, "1", None, None, None),  # another node may be a container beside this one
        (RANK, look_at(SMALL), W4, "2", None, None, "0"),
        (PAIR, look_at(SMALL), {}, "1", None, None, "0"),
        (PAIR, look_at(Box(1, 4)), {}, "1", None, "0,2", None),
        (PAIR, look_at(Box(1, 4)), W2, "2", None, None, "0"),
        (PAIR, look_at(Box(1, 4)), OFF, "2", None, None, None),
        (PAIR, look_at(Box(1, 4)), {**W2, "CCL_WORKER_OFFLOAD": "1"}, "1", None, None, "0"),
        (PAIR, look_at(SMALL), {"CCL_WORKER_OFFLOAD": "1"}, "1", None, None, "0"),  # kept yours
        (PODS, look_at(Box(1, 1)), {}, "1", None, None, "0"),
        # A number that was mistyped is not listed.
        (ALONE._replace(local_size=999_999_999), look_at(TWO), {}, "1", None, None, "0"),
    ],
)
def test_workers_of_oneccl_take_cores_from_the_threads(
    world: World,
    machine: Machine,
    environ: dict[str, str],
    threads: str,
    bound: str | None,
    workers: str | None,
    offload: str | None,
) -> None:
    variables = values(world, machine, CCL, environ=environ)
    assert (variables["OMP_NUM_THREADS"], variables.get("KMP_AFFINITY")) == (threads, bound)
    assert (variables.get("CCL_WORKER_OFFLOAD"), variables["CCL_WORKER_COUNT"]) == (offload, "1")
    if "CCL_WORKER_AFFINITY" not in environ:
        assert variables.get("CCL_WORKER_AFFINITY") == workers


SLURM = World("slurm", "", (2, 2), None, 4, 1, 1, 8, "node0", 29500)
STEP = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_CPUS_PER_TASK": "14"}


@pytest.mark.parametrize(
    ("world", "cpus", "environ", "threads", "bound"),
    [
        # What started the rank has the rank's own mask, so nothing else shows that the launcher pinned it.
        (SLURM, "21-34", STEP, "14", FINE),
        (SLURM, "21-34", {"SLURM_STEP_NUM_TASKS": "8"}, "3", None),
        (SLURM, "14-27", STEP, "14", None),
        (SLURM, "0-55", STEP, "14", None),
        (SLURM, "0-54", STEP, "14", None),
        (SLURM, "0-55", {**STEP, "SLURM_CPUS_PER_TASK": "2"}, "2", None),
        (SLURM, "0-55", {**STEP, "SLURM_STEP_NUM_TASKS": "1"}, "14", None),  # of another step
        (SLURM, "0-55", {"SLURM_STEP_NUM_TASKS": "1", "SLURM_CPUS_PER_TASK": "2"}, "14", None),
        (SLURM._replace(launcher="mpi"), "0-55", {**STEP, "SLURM_CPUS_PER_TASK": "2"}, "2", None),
        (SLURM._replace(launcher="torchrun"), "0-55", {**STEP, "SLURM_CPUS_PER_TASK": "2"}, "14", None),
    ],
)
def test_a_launcher_may_say_whose_cores_they_are(
    world: World, cpus: str, environ: dict[str, str], threads: str, bound: str | None
) -> None:
    variables = values(world, look_at(TWO, cpuset(cpus), cpus=cpus), environ=environ)
    assert (variables["OMP_NUM_THREADS"], variables.get("KMP_AFFINITY")) == (threads, bound)


@pytest.mark.parametrize(
    ("python", "environ", "bound"),
    [
        ("3.13", {}, True),
        ("3.14", {}, False),  # the workers of a DataLoader would inherit the processor of a thread
        ("3.13", {"OMP_PROC_BIND": "false"}, False),
        ("3.13", {"GOMP_CPU_AFFINITY": "0"}, False),
        ("3.13", {"LD_PRELOAD": "/mine.so"}, False),
    ],
)
def test_threads_are_bound_where_that_is_ours_to_do(python: str, environ: dict[str, str], bound: bool) -> None:
    variables = values(LONE, look_at(TWO), GLOO._replace(python=python), environ=environ)
    assert ("KMP_AFFINITY" in variables) == bound
    assert "KMP_AFFINITY" not in values(LONE, look_at(TWO), environ=environ, image=ALL - {OPENMP})


def test_only_a_training_needs_a_worker_of_oneccl() -> None:
    without = {"CCL_WORKER_COUNT": "0"}
    assert values(PAIR, look_at(TWO), CCL, environ=without, role=Role.PROGRAM)["OMP_NUM_THREADS"] == "56"
    with pytest.raises(Refusal, match="CCL_WORKER_COUNT=0"):
        values(PAIR, look_at(TWO), CCL, environ=without)


WRAPPER = "/usr/lib/x86_64-linux-gnu/libnss_wrapper.so"
ENDPOINT = {"PET_RDZV_ENDPOINT": "localhost:29400"}
ELASTIC = World("torchrun", "", (1, 1), local_size=2, master="localhost", port=29400)


@pytest.mark.parametrize(
    ("world", "role", "environ", "interface", "address"),
    [
        (PAIR, Role.AGENT, {}, "eth7", "127.0.0.1"),
        (ALONE, Role.RANK, {}, "eth7", None),
        (ALONE, Role.TORCHRUN, {}, "eth7", "127.0.0.1"),
        (ALONE, Role.ANY, {}, "eth7", None),
        (ELASTIC, Role.AGENT, ENDPOINT, "eth7", "127.0.0.1"),
        (ELASTIC._replace(nodes=(1, 2)), Role.AGENT, ENDPOINT, "eth7", None),
        # one that may be typed later, without a network
        *((ALONE, role, {}, None, "127.0.0.1") for role in (Role.ANY, Role.PROGRAM, Role.STARTER)),
        (ALONE, Role.STARTER, {}, "eth0", None),
        (RANK, Role.MEMBER, {}, None, None),
    ],
)
def test_a_torchrun_on_one_node_needs_no_name(
    world: World, role: Role, environ: dict[str, str], interface: str | None, address: str | None
) -> None:
    variables = values(world, look_at(SMALL), role=role, environ=environ, interface=interface)
    assert variables.get("PET_LOCAL_ADDR") == address


@pytest.mark.parametrize(("starter", "address"), [("torchrun", None), ("mpirun", "127.0.0.1")])
def test_a_typed_torchrun_is_told_no_address_that_it_would_take_for_the_users(
    starter: str, address: str | None
) -> None:
    tuned = tune(ALONE, look_at(SMALL), {}, GLOO, Process(Role.STARTER, starter=starter))
    assert {row.name: row.value for row in tuned.settings}.get("PET_LOCAL_ADDR") == address


@pytest.mark.parametrize(
    ("yours", "kmp"),
    [
        ("", True),
        ("/usr/lib/libmine.so", False),
        (f"libmine.so:{OPENMP}", True),
        (WRAPPER, True),
        (f"{WRAPPER}:/mine.so", False),
    ],
)
def test_a_preload_of_the_users(yours: str, kmp: bool) -> None:
    tuned = tune(ALONE, look_at(SMALL), {"LD_PRELOAD": yours}, GLOO, Process(has_file=ALL.__contains__))
    assert ("KMP_BLOCKTIME" in {setting.name for setting in tuned.settings}) == kmp


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"MASTER_PORT": "29500"}, {}),
        ({}, {"MASTER_PORT": "29500"}),
        ({"MASTER_ADDR": "[fd77::1]", "MASTER_PORT": "1234"}, {"MASTER_ADDR": "fd77::1"}),
    ],
)
def test_ranks_by_hand_get_what_torch_wants(more: dict[str, str], wanted: dict[str, str]) -> None:
    environ = {"RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.77.0.1", **more}
    place = {"LOCAL_WORLD_SIZE": "1", "NODE_RANK": "1", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2"}
    environ["LOCAL_WORLD_SIZE"] = "1"

    set_now = {setting.name: setting.value for setting in set_rank_variables(detect(environ), environ)}
    assert set_now == {**wanted, **{name: value for name, value in place.items() if name not in environ}}
    assert not set_rank_variables(detect(environ), {**environ, **place, **set_now})


@pytest.mark.parametrize(
    ("environ", "sizes"),
    [
        ({SIZE: "1:4"}, ["1"]),
        ({SIZE: "1:"}, ["1"]),
        ({SIZE: "1"}, []),
        ({}, []),
        ({SIZE: "1:4", "PET_NNODES": "1:4", "PET_RDZV_ENDPOINT": "node0:29500"}, []),
        ({SIZE: "1:4", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}, []),
    ],
)
def test_a_training_that_is_alone_and_may_be_is_not_taken_for_one_of_several(
    environ: dict[str, str], sizes: list[str]
) -> None:
    now = {setting.name: setting.value for setting in settle_size(detect(environ), environ)}

    assert list(now.values()) == sizes
    assert not sizes or count_meant({**environ, **now}) == 1


@pytest.mark.parametrize(
    ("ranks", "nodes", "local_size", "node_of"),
    [
        ([(0, 0), (1, 1), (2, 0), (3, 1)], 2, 2, [0, 0, 1, 1]),
        ([(0, 0), (1, 0), (2, 1), (3, 1)], 2, 2, [0, 1, 0, 1]),  # dealt out in turns
        ([(0, 0), (1, 0), (2, 0)], 3, 1, [0, 1, 2]),
        ([(2, 2), (3, 0), (4, 1), (5, 2)], 2, 3, [0, 1, 1, 1]),
    ],
)
def test_the_node_of_a_rank(ranks: list[tuple[int, int]], nodes: int, local_size: int, node_of: list[int]) -> None:
    worlds = [
        World(MPI, "", (nodes, nodes), local_size=local_size, rank=rank, local_rank=local) for rank, local in ranks
    ]

    assert [find_node(world, {}) for world in worlds] == node_of
    assert find_node(worlds[-1]._replace(launcher="slurm"), {"SLURM_NODEID": "7"}) == 7


def test_what_the_script_of_oneccl_sets_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "oneccl_bindings_for_pytorch/env/setvars.sh"
    stack, environ = CCL._replace(site=str(tmp_path)), {"PATH": "/bin", "HOME": "/h", "A": "1"}
    dump = b"PATH=/x:/bin\0CCL_ROOT=/\xff\0HOME=/h\0A=2\0SHLVL=1\0"
    run = mock.Mock(return_value=subprocess.CompletedProcess([], 0, dump))
    monkeypatch.setattr(subprocess, "run", run)
    assert take_setvars(environ, stack) == []
    script.parent.mkdir(parents=True)
    script.touch()

    taken = take_setvars(environ, stack)
    assert taken == [Setting("PATH", "/x:/bin", "setvars.sh"), Setting("CCL_ROOT", "/\udcff", "setvars.sh")]
    assert take_setvars({**environ, "CCL_ROOT": "/"}, stack) == take_setvars(environ, GLOO) == []
    argv = ["bash", "--noprofile", "--norc", "-c", SOURCE, "bash", str(script)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "check": False}
    assert run.mock_calls == [mock.call(argv, env=environ, **options)]


READ = {"": None, " ": None, "2": 2, "4,2": 4, " 4, 2 ": 4, "007": 7}


@pytest.mark.parametrize("text", [*READ, '"1"', "two", "0", "-1", "1.5", "4,", "4,0", "$(CPUS)", "4 2"])
def test_a_number_of_threads_is_one_that_openmp_reads(text: str) -> None:
    if text in READ:
        assert read_threads({"OMP_NUM_THREADS": text}) == READ[text]
        return
    with pytest.raises(Refusal) as caught:
        read_threads({"OMP_NUM_THREADS": text})
    assert (caught.value.code, caught.value.value) == (2, repr(text))
