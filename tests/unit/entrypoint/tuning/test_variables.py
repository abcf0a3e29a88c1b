"""Variables for worlds on machines, worked out by hand."""

from __future__ import annotations

import pytest

from entrypoint.machine.cpus import Machine
from entrypoint.machine.image import Stack
from entrypoint.tuning.threads import ANY, RANKS, SINGLE, UNKNOWN, Process, set_local_size
from entrypoint.tuning.variables import is_training, set_rank_variables, tune
from entrypoint.world.model import World
from entrypoint.world.table import detect
from tests.support.machines import Box, cpuset, docker, look_at, nested, pod

GLOO = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "/usr/local/lib/python3.11/dist-packages")
CCL = GLOO._replace(torch="2.4.0+cpu", transformers="4.46.0", backend="ccl")
ALL = {
    "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", "/usr/local/lib/libiomp5.so", "/usr/local/bin/mpiexec.hydra",
    "/usr/local/lib/libtcp-fi.so",
}  # fmt: skip
ALONE = World("alone", "")
PODS = World("torchrun", "", (2, 2), 0, None, master="node0", port=29500)
RANK = World("mpi", "", (2, 2), None, 1, 1, 0, 2, "node0", 29500)
BOTH = World("mpi", "", (1, 1), None, 2, 1, 1, 2, "127.0.0.1", 29500)
FOUR = BOTH._replace(size=4, local_size=4)


def values(
    world: World,
    machine: Machine,
    stack: Stack = GLOO,
    *,
    job: bool = True,
    environ: dict[str, str] | None = None,
    image: set[str] | None = None,
    kind: str = RANKS,
    offline: bool = False,
) -> dict[str, str]:
    world = set_local_size(world, machine, starts=kind == RANKS or job)
    exists = (ALL if image is None else image).__contains__
    process = Process(kind, job or is_training(world), find_interface=lambda: "eth7", has_file=exists, offline=offline)
    tuned = tune(world, machine, environ or {}, stack, process)
    return {"each": str(world.local_size), **{setting.name: setting.value for setting in tuned.settings}}


SMALL, ONE, TWO = Box(1, 2), Box(1, 28, 2), Box(2, 28, 2)
SNC, HOST, EPYC, ARM = Box(2, 56, 2, 4), Box(2, 60, 2), Box(1, 96, 2, 4), Box(1, 64)
FINE = "granularity=fine,compact,1,0"
# Hydra gives each of two ranks a socket, both hardware threads of a core.
SOCKET = look_at(TWO, cpus="28-55,84-111", parent="0-111")


@pytest.mark.parametrize(
    ("world", "machine", "each", "threads", "bound", "pin"),
    [
        (ALONE, look_at(SMALL), "1", "2", FINE, None),
        (ALONE, look_at(ONE), "1", "28", FINE, None),
        (ALONE, look_at(Box(1, 28)), "1", "28", FINE, None),
        (ALONE, look_at(TWO), "2", "28", None, None),
        (ALONE, look_at(Box(2, 28)), "2", "28", None, None),
        (ALONE, look_at(SNC), "8", "14", None, None),
        (ALONE, look_at(EPYC), "4", "24", None, None),
        (ALONE, look_at(ARM), "1", "64", FINE, None),
        (ALONE, look_at(HOST, pod(32)), "1", "32", None, "0"),
        (ALONE, look_at(HOST, docker(32)), "1", "32", None, "0"),
        (ALONE, look_at(HOST, nested(64, 32)), "1", "32", None, "0"),
        (ALONE, look_at(SMALL, pod(1.4)), "1", "1", None, "0"),
        (ALONE, look_at(SMALL, pod(1.5)), "1", "2", None, "0"),
        (ALONE, look_at(SMALL, pod(0.5)), "1", "1", None, "0"),
        (ALONE, look_at(HOST, cpuset("0-29,120-149"), cpus="0-29,120-149"), "1", "30", FINE, None),
        (ALONE._replace(local_size=4), look_at(SMALL), "4", "1", None, None),
        # One of several nodes cannot know whether another is a container on the same host, unless it has a cpuset.
        (PODS, look_at(ONE), "1", "28", None, None),
        (PODS, look_at(ONE, cpuset("4-27,32-55"), cpus="4-27,32-55"), "1", "24", FINE, None),
        (PODS, look_at(TWO), "2", "28", None, None),
        (PODS, look_at(HOST, pod(32)), "1", "32", None, "0"),
        (RANK, look_at(ONE), "1", "28", None, None),
        (RANK, look_at(ONE, cpus="0-13", parent="0-55"), "1", "14", FINE, None),
        (RANK, look_at(SMALL, pod(1.5)), "1", "2", None, "0"),
        (BOTH, SOCKET, "2", "28", FINE, None),
        (BOTH, look_at(TWO), "2", "28", None, None),
        # Nobody pinned the ranks (I_MPI_PIN=0), or two of them share a socket: they share its cores.
        (BOTH, look_at(HOST, pod(8), parent="0-239"), "2", "4", None, "0"),
        (FOUR, SOCKET, "4", "14", None, None),
        (BOTH, look_at(Box(1, 5), cpus="0-2", parent="0-4"), "2", "3", FINE, None),
        (BOTH, look_at(Box(1, 5), cpus="3-4", parent="0-4"), "2", "2", FINE, None),
        (FOUR, look_at(TWO, cpus="14-27,70-83", parent="0-111"), "4", "14", FINE, None),
    ],
)
def test_threads_and_binding_follow_from_the_cores(
    world: World, machine: Machine, each: str, threads: str, bound: str | None, pin: str | None
) -> None:
    found = values(world, machine)
    assert (found["each"], found["OMP_NUM_THREADS"]) == (each, threads)
    assert (found.get("KMP_AFFINITY"), found.get("I_MPI_PIN")) == (bound, pin)
    assert not [name for name in found if name.startswith("CCL_")]


W4 = {"CCL_WORKER_COUNT": "4"}
PUBLISHED = {**W4, "CCL_WORKER_AFFINITY": "0,1,2,3,28,29,30,31"}
GUIDE = {**W4, "CCL_WORKER_AFFINITY": "0,1,2,3,32,33,34,35"}
CLOUD = Box(1, 32, 2)


@pytest.mark.parametrize(
    ("world", "machine", "environ", "threads", "bound", "workers"),
    [
        (ALONE, look_at(SMALL), {}, "2", FINE, None),
        (ALONE, look_at(TWO), {}, "27", None, "0,28"),
        (ALONE, look_at(TWO), W4, "24", None, "0,1,2,3,28,29,30,31"),
        (ALONE, look_at(SNC), {}, "13", None, "0,14,28,42,56,70,84,98"),
        (PODS, look_at(TWO), {}, "27", None, "0,28"),
        (PODS, look_at(ONE, cpuset("4-27,32-55"), cpus="4-27,32-55"), {}, "23",
         "granularity=fine,proclist=[5-27],explicit", "4"),
        (PODS, look_at(HOST, pod(32)), {}, "31", None, None),
        (RANK, look_at(SMALL), {}, "1", None, "0"),
        (RANK, look_at(SMALL), W4, "2", None, None),
        # Pinned by hydra as it likes: the rank's first cores are its workers'.
        (BOTH, SOCKET, {}, "27", "granularity=fine,proclist=[29-55],explicit", "28,28"),
        (BOTH, SOCKET, W4, "24", "granularity=fine,proclist=[32-55],explicit", "28,29,30,31,28,29,30,31"),
        # IPEX's own example: two sockets of 28 cores, I_MPI_PIN_DOMAIN=[0xffffff0,0xffffff00000000].
        (BOTH, look_at(TWO, cpus="32-55", parent="0-111"), PUBLISHED, "24", FINE, None),
        # The guide's: one rank on 32 cores, I_MPI_PIN_DOMAIN=[0xfffffff0], OMP_NUM_THREADS=28.
        (RANK, look_at(CLOUD, cpus="4-31", parent="0-63"), GUIDE, "28", FINE, None),
        (RANK, look_at(CLOUD), GUIDE, "28", None, None),
    ],
)  # fmt: skip
def test_workers_of_oneccl_take_cores_from_the_threads(
    world: World, machine: Machine, environ: dict[str, str], threads: str, bound: str | None, workers: str | None
) -> None:
    found = values(world, machine, CCL, environ=environ)
    assert (found["OMP_NUM_THREADS"], found.get("KMP_AFFINITY")) == (threads, bound)
    if "CCL_WORKER_AFFINITY" not in environ:
        assert found.get("CCL_WORKER_AFFINITY") == workers
    assert (found["CCL_WORKER_COUNT"], found["CCL_ATL_TRANSPORT"]) == ("1", "ofi")


def test_an_image_without_intels_openmp_has_nothing_of_it() -> None:
    found = values(ALONE, look_at(ARM), image={"/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4"})
    assert not [name for name in found if name.startswith(("KMP_", "I_MPI_", "FI_PROVIDER"))]
    assert (found["LD_PRELOAD"], found["OMP_NUM_THREADS"]) == ("/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4", "64")


def test_the_interface_is_set_for_gloo_and_libfabric() -> None:
    assert values(ALONE, look_at(SMALL))["GLOO_SOCKET_IFNAME"] == "lo"
    found = values(RANK, look_at(SMALL))
    assert found["GLOO_SOCKET_IFNAME"] == found["FI_TCP_IFACE"] == "eth7"


@pytest.mark.parametrize(
    ("count", "kind", "job", "address"),
    [(2, RANKS, True, "127.0.0.1"), (1, RANKS, True, None), (1, ANY, True, "127.0.0.1"), (1, ANY, False, None)],
)
def test_torchrun_on_one_node_needs_no_name(count: int, kind: str, job: bool, address: str | None) -> None:
    found = values(ALONE._replace(local_size=count), look_at(SMALL), job=job, kind=kind)
    assert found.get("PET_LOCAL_ADDR") == address


@pytest.mark.parametrize(("nodes", "address"), [((1, 1), "127.0.0.1"), ((1, 2), None)])
def test_an_elastic_rendezvous_of_one_node_needs_no_name(nodes: tuple[int, int], address: str | None) -> None:
    world = World("torchrun", "", nodes, local_size=2, master="localhost", port=29400)
    found = values(world, look_at(SMALL), environ={"PET_RDZV_ENDPOINT": "localhost:29400"})
    assert found.get("PET_LOCAL_ADDR") == address


@pytest.mark.parametrize("kind", [ANY, SINGLE, UNKNOWN])
def test_without_a_network_a_torchrun_that_is_typed_later_needs_no_name(kind: str) -> None:
    found = values(ALONE, look_at(SMALL), job=False, kind=kind, offline=True)
    assert found["PET_LOCAL_ADDR"] == "127.0.0.1"
    assert "NSS_WRAPPER_HOSTNAME" not in found
    assert "PET_LOCAL_ADDR" not in values(RANK, look_at(SMALL), job=False, kind=kind, offline=True)


WRAPPER = "/usr/lib/x86_64-linux-gnu/libnss_wrapper.so"


@pytest.mark.parametrize(
    ("stack", "offline", "image", "name"),
    [
        (CCL, True, {*ALL, WRAPPER}, "localhost"),
        (CCL, False, {*ALL, WRAPPER}, None),
        (CCL, True, ALL, None),
        (GLOO, True, {*ALL, WRAPPER}, None),
    ],
)
def test_torch_2_4_gets_a_name_that_resolves_where_there_is_no_network(
    stack: Stack, offline: bool, image: set[str], name: str | None
) -> None:
    found = values(ALONE, look_at(SMALL), stack, job=False, kind=ANY, offline=offline, image=image)
    assert found.get("NSS_WRAPPER_HOSTNAME") == name
    assert (found["LD_PRELOAD"].split(":")[-1] == WRAPPER) == bool(name)


def test_oneccl_meets_where_the_ranks_do() -> None:
    assert values(ALONE._replace(local_size=2), look_at(SMALL), CCL)["CCL_KVS_IFACE"] == "lo"
    assert values(RANK, look_at(SMALL), CCL)["CCL_KVS_IFACE"] == "eth7"
    assert "CCL_KVS_IFACE" not in values(RANK, look_at(SMALL))


@pytest.mark.parametrize(
    ("world", "machine", "environ", "offload", "threads"),
    [
        (ALONE._replace(local_size=2), look_at(SMALL), {}, "0", "1"),
        (ALONE._replace(local_size=2), look_at(Box(1, 4)), {}, None, "1"),
        (ALONE._replace(local_size=2), look_at(Box(1, 4)), {"CCL_WORKER_COUNT": "2"}, "0", "2"),
        (ALONE._replace(local_size=2), look_at(Box(1, 4)), {"CCL_WORKER_OFFLOAD": "0"}, None, "2"),
        (ALONE._replace(local_size=2), look_at(SMALL), {"CCL_WORKER_OFFLOAD": "1"}, "0", "1"),  # kept yours
        (PODS, look_at(Box(1, 1)), {}, "0", "1"),
        (ALONE._replace(local_size=1), look_at(Box(1, 1)), {}, None, "1"),
    ],
)
def test_workers_of_oneccl_need_a_core(
    world: World, machine: Machine, environ: dict[str, str], offload: str | None, threads: str
) -> None:
    found = values(world, machine, CCL, environ=environ)
    assert (found.get("CCL_WORKER_OFFLOAD"), found["OMP_NUM_THREADS"]) == (offload, threads)


@pytest.mark.parametrize(
    ("numbers", "names", "machine", "places"),
    [
        ((None, None), ("job-worker-0", "job-worker-1"), look_at(ONE), 2),
        # The sums of these names differ by 14: a number of the node is better, where there is one.
        ((None, None), ("job-master-0", "job-worker-0"), look_at(Box(1, 14)), 1),
        ((0, 1), ("job-master-0", "job-worker-0"), look_at(Box(1, 14)), 2),
        ((0, 1), ("", ""), look_at(SMALL), 2),
    ],
)
def test_workers_of_two_containers_on_one_host_have_other_cores(
    numbers: tuple[int | None, int | None], names: tuple[str, str], machine: Machine, places: int
) -> None:
    worlds = [PODS._replace(node_rank=number) for number in numbers]
    found = [values(world, machine, CCL, environ={"HOSTNAME": name}) for world, name in zip(worlds, names, strict=True)]
    assert len({each["CCL_WORKER_AFFINITY"] for each in found}) == places


def test_a_single_node_has_the_host_to_itself() -> None:
    found = [values(ALONE, look_at(TWO), CCL, environ={"HOSTNAME": name}) for name in ("job-worker-0", "job-worker-1")]
    assert {each["CCL_WORKER_AFFINITY"] for each in found} == {"0,28"}


def test_a_shell_gets_nothing_that_would_be_wrong_for_what_is_typed_in_it() -> None:
    found = values(ALONE, look_at(SMALL), job=False, kind=ANY)
    assert set(found) == {
        "each", "OMP_NUM_THREADS", "KMP_BLOCKTIME", "LD_PRELOAD", "I_MPI_ROOT", "FI_PROVIDER_PATH",
    }  # fmt: skip
    assert found["LD_PRELOAD"].endswith("libtcmalloc.so.4:/usr/local/lib/libiomp5.so")
    assert "CCL_WORKER_AFFINITY" not in values(ALONE, look_at(TWO), CCL, job=False)


def test_ranks_by_a_slip_of_the_finger_are_not_listed() -> None:
    assert "CCL_WORKER_AFFINITY" not in values(ALONE._replace(local_size=999_999_999), look_at(TWO), CCL)


@pytest.mark.parametrize(
    ("kind", "box", "threads", "bound"),
    [(SINGLE, TWO, "56", True), (SINGLE, SNC, "112", True), (ANY, TWO, "56", False), (UNKNOWN, TWO, None, False)],
)
def test_one_process_has_the_whole_machine(kind: str, box: Box, threads: str | None, bound: bool) -> None:
    found = values(ALONE, look_at(box), job=False, kind=kind)
    assert (found.get("OMP_NUM_THREADS"), "KMP_AFFINITY" in found) == (threads, bound)


@pytest.mark.parametrize("name", ["OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"])
def test_threads_that_the_user_has_bound_are_not_bound_again(name: str) -> None:
    assert "KMP_AFFINITY" not in values(ALONE, look_at(SMALL), environ={name: "false"})


SLURM = World("slurm", "", (2, 2), None, 4, 1, 1, 8, "node0", 29500)
HYDRA = World("mpi", "", (1, 1), None, 4, 1, 1, 4, "127.0.0.1", 29500)
PIN = {"I_MPI_PIN_INFO": "14-27,70-83", "I_MPI_PIN_MAPPING": "4:0 0,1 14,2 28,3 42"}


@pytest.mark.parametrize(
    ("world", "cpus", "environ", "threads", "bound"),
    [
        # What started the rank has the rank's own mask, so nothing else shows that the launcher pinned it.
        (SLURM, "14-27", {"SLURM_STEP_NUM_TASKS": "8", "SLURM_CPUS_PER_TASK": "14"}, "14", FINE),
        (SLURM, "14-27", {"SLURM_STEP_NUM_TASKS": "8"}, "3", None),
        (SLURM, "0-55", {"SLURM_STEP_NUM_TASKS": "8", "SLURM_CPUS_PER_TASK": "14"}, "14", None),
        (SLURM, "0-55", {"SLURM_STEP_NUM_TASKS": "8", "SLURM_CPUS_PER_TASK": "2"}, "2", None),
        (SLURM._replace(local_size=1), "0-55", {"SLURM_STEP_NUM_TASKS": "8", "SLURM_CPUS_PER_TASK": "2"}, "2", None),
        (SLURM, "0-55", {"SLURM_STEP_NUM_TASKS": "1", "SLURM_CPUS_PER_TASK": "2"}, "14", None),  # of another step
        (SLURM, "0-55", {"SLURM_STEP_NUM_TASKS": "8", "SLURM_CPUS_PER_TASK": "x"}, "14", None),
        (HYDRA, "14-27,70-83", PIN, "14", FINE),
        (HYDRA, "14-27,70-83", {**PIN, "I_MPI_PIN_MAPPING": "4:0 14,1 14,2 28,3 28"}, "3", None),
        (HYDRA, "0-111", {**PIN, "I_MPI_PIN_INFO": "14-27,70-83"}, "14", None),
    ],
)
def test_a_launcher_may_say_whose_cores_they_are(
    world: World, cpus: str, environ: dict[str, str], threads: str, bound: str | None
) -> None:
    found = values(world, look_at(TWO, cpuset(cpus), cpus=cpus), environ=environ)
    assert (found["OMP_NUM_THREADS"], found.get("KMP_AFFINITY")) == (threads, bound)


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"MASTER_PORT": "29500"}, {}),
        ({}, {"MASTER_PORT": "29500"}),
        ({"MASTER_ADDR": "[fd77::1]", "MASTER_PORT": "1234"}, {"MASTER_ADDR": "fd77::1"}),
    ],
)
def test_ranks_by_hand_get_what_torch_wants(more: dict[str, str], found: dict[str, str]) -> None:
    environ = {"RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.77.0.1", **more}
    assert {each.name: each.value for each in set_rank_variables(detect(environ), environ)} == found


@pytest.mark.parametrize(
    ("yours", "is_lost", "kmp"),
    [
        ("", False, True),
        ("/usr/lib/libmine.so", False, False),
        ("libmine.so", False, False),  # the loader looks for it
        ("/usr/$LIB/xalt.so", False, False),
        ("/usr/lib/libmine.so:/usr/local/lib/libiomp5.so", False, True),
        ("/host/lib/darshan.so /host/lib/other.so", True, True),
        ("/usr/lib/x86_64-linux-gnu/libnss_wrapper.so", False, True),
    ],
)
def test_a_preload_of_the_users(yours: str, is_lost: bool, kmp: bool) -> None:
    world = ALONE._replace(local_size=1)
    process = Process(has_file={*ALL, "/usr/lib/libmine.so"}.__contains__)
    tuned = tune(world, look_at(SMALL), {"LD_PRELOAD": yours}, GLOO, process)
    assert (tuned.removed, len(tuned.notes)) == ({"LD_PRELOAD"} if is_lost else frozenset(), is_lost)
    assert ("KMP_BLOCKTIME" in {each.name for each in tuned.settings}) == kmp
