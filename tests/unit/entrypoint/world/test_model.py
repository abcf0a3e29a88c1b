"""Sizes and places, from the variables of every launcher."""

from __future__ import annotations

import pytest

from entrypoint.errors import USER, Refusal
from entrypoint.world.model import PORT, PORTS, Ranks, World, choose_port, drop_links, read_host, read_layout
from entrypoint.world.table import detect, read_world
from tests.support.launchers import left_by

INTEL = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
APART = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
ELASTIC = {"PET_RDZV_ENDPOINT": "w-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:4"}
MASTER = {"MASTER_ADDR": "m", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "1", "PET_NNODES": "2"}


def read(environ: dict[str, str], nproc: int | None = None) -> World:
    return read_world(environ, detect(environ), nproc)


def test_ranks_of_one_node_meet_on_loopback_over_what_the_pod_left() -> None:
    world = read({**INTEL, "RANK": "0", "WORLD_SIZE": "1"})
    assert (world.rank, world.size, world.local_rank, world.local_size) == (1, 2, 1, 2)
    assert (world.master, world.port, world.nodes) == ("127.0.0.1", 29500, (1, 1))


@pytest.mark.parametrize("master", [{}, {"MASTER_ADDR": "127.0.0.1"}, {"MASTER_ADDR": "localhost"}])
def test_ranks_of_several_nodes_need_a_master(master: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="MASTER_ADDR"):
        read({**APART, **master})


def test_ranks_of_several_nodes_meet_at_the_given_master() -> None:
    world = read({**APART, "MASTER_ADDR": "node0", "MASTER_PORT": "1234"})
    assert (world.nodes, world.local_size, world.master, world.port) == ((2, 2), 1, "node0", 1234)


@pytest.mark.parametrize(
    ("environ", "fact"),
    [
        ({**ELASTIC, "PET_NNODES": "4:1"}, "PET_NNODES"),
        ({**ELASTIC, "PET_NNODES": "many"}, "PET_NNODES"),
        ({**ELASTIC, "PET_NPROC_PER_NODE": "two"}, "PET_NPROC_PER_NODE"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "a:b"}, "port"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "a:65536"}, "port"),
        ({**MASTER, "MASTER_PORT": "tcp://10.0.0.1:80"}, "port"),
        ({**INTEL, "MASTER_PORT": "70000"}, "port"),
        ({**ELASTIC, "PET_NNODES": ""}, "how many nodes"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": ":23456"}, "no host"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": '"w-0:23456"'}, "no host"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "http://w-0:23456"}, "no host"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "w-0:23456:1"}, "no host"),
        ({"PET_MASTER_ADDR": "m:29500", "PET_NNODES": "2", "RANK": "1"}, "PET_MASTER_ADDR is neither a name nor"),
        ({**MASTER, "PET_MASTER_ADDR": "", "MASTER_ADDR": "'m'"}, "MASTER_ADDR is neither a name nor an address"),
        ({**APART, "MASTER_ADDR": "m:29500"}, "MASTER_ADDR is neither a name nor an address"),
        ({"PET_MASTER_ADDR": "m"}, "how many nodes"),
        ({"PET_MASTER_ADDR": "m", "PET_NNODES": "2"}, "which node"),
        ({**MASTER, "RANK": "2"}, "the node's rank is not below"),
        ({**INTEL, "PMI_RANK": "2"}, "rank is not below"),
        ({**INTEL, "PMI_SIZE": "x"}, "PMI_SIZE is not a number"),
        ({"WORLD_SIZE": "abc", "MASTER_ADDR": "m", "RANK": "0"}, "WORLD_SIZE is not a number"),
    ],
)
def test_what_is_wrong_is_said(environ: dict[str, str], fact: str) -> None:
    with pytest.raises(Refusal) as caught:
        read(environ)
    assert fact in caught.value.fact
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("node_0.rack-1.", "node_0.rack-1."),
        (" 10.77.0.1\n", "10.77.0.1"),
        ("r\xe4knare", "r\xe4knare"),
        ("[fd00::1]", "fd00::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        (" ", ""),
        ("m:29500", None),
        ("10.77.0.1:29500", None),
        ("[fd00::1]:29500", None),
        ("m:", None),
        ('"m"', None),
        ("m n", None),
        ("tcp://m", None),
        ("$(MASTER)", None),
        ("\udc80", None),
        ("\udc80::1", None),
    ],
)
def test_what_names_no_host_is_refused(text: str, host: str | None) -> None:
    if host is not None:
        assert read_host(text, "PET_MASTER_ADDR") == host
        return
    with pytest.raises(Refusal, match="a port belongs in PET_MASTER_PORT") as caught:
        read_host(text, "PET_MASTER_ADDR")
    assert caught.value.code == USER


def test_a_master_that_nobody_asks_is_not_looked_at() -> None:
    assert read({**INTEL, "MASTER_ADDR": "m:29500"}).master == "127.0.0.1"


@pytest.mark.parametrize(
    ("left", "rank", "local_rank", "size", "local_size"),
    [
        (("intel-mpi-0",), 0, 0, 2, 2),
        (("intel-mpi-1",), 1, 1, 2, 2),
        (("intel-mpi-unpinned-1",), 1, 1, 2, 2),
        (("intel-mpi-two-hosts-0",), 0, 0, 2, 1),
        (("intel-mpi-two-hosts-1",), 1, 0, 2, 1),
        (("mpich-0",), 0, 0, 2, 2),
        (("mpich-1",), 1, 1, 2, 2),
        (("mpich-two-hosts-1",), 1, 0, 2, 1),
        (("open-mpi-0",), 0, 0, 2, 2),
        (("open-mpi-1",), 1, 1, 2, 2),
        (("mvapich2",), 3, 1, 4, 2),
        (("slurm-step",), 3, 1, 4, 2),
        (("slurm-step", "slurm-pmix"), 3, 1, 4, 2),
        (("slurm-step", "slurm-pmi2"), 3, 1, 4, 2),
        (("torchrun-worker",), 1, 1, 2, 2),
        # What the pod, the allocation or the step has left over counts for nothing.
        (("pytorchjob-master", "intel-mpi-0"), 0, 0, 2, 2),
        (("pytorchjob-elastic-master", "open-mpi-1"), 1, 1, 2, 2),
        (("trainer-v2", "mpich-1"), 1, 1, 2, 2),
        (("mpijob-worker", "intel-mpi-two-hosts-1"), 1, 0, 2, 1),
        (("mpijob-launcher-open", "open-mpi-0"), 0, 0, 2, 2),
        (("slurm-batch", "intel-mpi-1"), 1, 1, 2, 2),
        (("slurm-batch", "open-mpi-1"), 1, 1, 2, 2),
        (("slurm-step", "torchrun-worker"), 1, 1, 2, 2),
        (("intel-mpi-two-hosts-1", "torchrun-worker"), 1, 1, 2, 2),
    ],
)
def test_each_launcher_gives_a_rank_its_place(
    left: tuple[str, ...], rank: int, local_rank: int, size: int, local_size: int
) -> None:
    world = read({**left_by(*left), "MASTER_ADDR": "n03"})
    assert (world.rank, world.local_rank, world.size, world.local_size) == (rank, local_rank, size, local_size)
    master = "127.0.0.1" if size == local_size and world.launcher != "torchrun-worker" else "n03"
    assert (world.master, world.several_nodes) == (master, size > local_size)


@pytest.mark.parametrize(
    ("local_size", "count", "size", "nodes", "local"),
    [
        ("", "", 4, (1, 4), 4),
        ("4", "", 4, (1, 1), 4),
        ("9", "", 4, (1, 1), 4),
        ("2", "", 4, (2, 2), 2),
        ("2", "", 5, (3, 3), 2),
        ("", "2", 5, (2, 2), 3),
        ("", "9", 4, (4, 4), 1),
        ("2", "3", 8, (3, 3), 2),  # the nodes have not all as many
        ("5", "3", 8, (3, 3), 5),
        ("2", "1", 8, (2, 2), 2),  # a number that is left over: there are more ranks than here
        ("2", "9", 4, (4, 4), 2),  # nodes without a rank
    ],
)
def test_nodes_and_the_ranks_of_this_one_are_counted(
    local_size: str, count: str, size: int, nodes: tuple[int, int], local: int
) -> None:
    names = Ranks("RANK", "SIZE", ("LOCAL_RANK",), ("LOCAL_SIZE",), nodes=("NODES",))
    assert read_layout({"LOCAL_SIZE": local_size, "NODES": count}, names, size) == (nodes, local)


@pytest.mark.parametrize(
    ("local", "around", "size", "nodes"),
    [
        (4, 4, 8, 2),  # mpirun on a part of the allocation
        (4, 9, 8, 2),
        (4, 4, 7, 2),
        (2, 3, 4, 2),
        (1, 3, 2, 2),
        (4, 1, 16, 4),  # mpirun typed in a step of one node
        (4, 2, 16, 4),
        (3, 1, 5, 2),
        (3, 3, 8, 3),  # 3, 3 and 2, as mpirun and srun put them, seen from each of the nodes
        (2, 3, 8, 3),
        (3, 2, 5, 2),
        (2, 2, 5, 2),
        (2, 4, 5, 4),  # 2, 1, 1 and 1
        (1, 4, 5, 4),
        (4, 2, 5, 2),  # 4 and 1: a node that is full, and another
        (1, 2, 5, 2),
        (8, 2, 8, 1),
        (2, None, 5, 3),
    ],
)
def test_an_allocation_does_not_say_on_how_many_nodes_mpirun_has_put_its_ranks(
    local: int, around: int | None, size: int, nodes: int
) -> None:
    names = Ranks("RANK", "SIZE", ("LOCAL_RANK",), ("LOCAL_SIZE",), around=("SLURM_NNODES",))
    environ = {"LOCAL_SIZE": str(local), "SLURM_NNODES": "" if around is None else str(around)}

    assert read_layout(environ, names, size) == ((nodes, nodes), local)


@pytest.mark.parametrize(
    ("left", "nodes"), [({"SLURM_NNODES": "4"}, 2), ({"SLURM_STEP_NUM_NODES": "1", "SLURM_NNODES": "1"}, 2)]
)
def test_ranks_of_launch_are_on_its_hosts_and_not_on_all_of_an_allocation(left: dict[str, str], nodes: int) -> None:
    hydra = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4", "MASTER_ADDR": "n1"}
    assert read({**hydra, **left}).nodes == (nodes, nodes)


def test_ranks_of_an_mpirun_that_says_nothing_of_this_node_are_on_all_of_the_allocation() -> None:
    names = Ranks("RANK", "SIZE", around=("SLURM_NNODES",))

    assert read_layout({"SLURM_NNODES": "2"}, names, 5) == ((2, 2), 3)
    assert read_layout({"SLURM_NNODES": "4"}, names, 6) == ((4, 4), 2)


def test_nproc_is_for_those_who_start_ranks() -> None:
    with pytest.raises(Refusal, match="--nproc"):
        read(INTEL, 2)
    assert read({}, 2).asked == "2"


def port_of(*left: str, **more: str) -> int:
    world = read({**left_by(*left), **more})
    assert world.port is not None
    return world.port


@pytest.mark.parametrize(
    ("left", "name", "other"),
    [
        (("slurm-step",), "SLURM_JOB_ID", "8"),
        (("slurm-step",), "SLURM_STEP_ID", "1"),
        (("slurm-step", "slurm-pmi2"), "SLURM_JOB_ID", "8"),
        (("intel-mpi-1",), "I_MPI_HYDRA_UUID", "ba260000-10c3-a1e1-c460-0600819c1c18"),
        (("open-mpi-1",), "PMIX_NAMESPACE", "prterun-node0-72@1"),
        (("flux-pmi",), "FLUX_JOB_ID", "f23AWiPCjX"),
    ],
)
def test_two_jobs_on_one_node_have_two_ports(left: tuple[str, ...], name: str, other: str) -> None:
    assert port_of(*left) != port_of(*left, **{name: other})
    assert port_of(*left, MASTER_PORT="1234") == 1234


def test_ranks_of_one_job_have_one_port() -> None:
    assert port_of("intel-mpi-0") == port_of("intel-mpi-1")
    assert port_of("slurm-step") == port_of("slurm-step", SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NODEID="0")


def test_ports_are_below_those_that_linux_and_kubernetes_give_away() -> None:
    assert min(PORTS) > 10000 and max(PORTS) < PORT < 30000
    assert len({choose_port(f"SLURM_JOB_ID={job}.0") for job in range(1000)}) > 900
    assert choose_port("") == PORT
    assert choose_port("FLUX_JOB_ID=\udcc6\u0192") in PORTS


@pytest.mark.parametrize(
    ("more", "nodes", "local_size"),
    [
        ({"LOCAL_WORLD_SIZE": "2"}, (2, 2), 2),
        ({"LOCAL_SIZE": "2"}, (2, 2), 2),
        ({"NODE_RANK": "1"}, (2, 2), 2),
        ({"NODE_RANK": "0", "RANK": "1"}, (1, 4), 4),
        ({}, (1, 4), 4),
        ({"NODE_RANK": "3"}, (1, 4), 4),
        ({"MASTER_ADDR": "127.0.0.1"}, (1, 1), 4),
    ],
)
def test_ranks_by_hand_are_on_one_node_only_if_something_says_so(
    more: dict[str, str], nodes: tuple[int, int], local_size: int
) -> None:
    by_hand = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "10.77.0.1"}
    world = read({**by_hand, **more})
    assert (world.nodes, world.local_size, world.several_nodes) == (nodes, local_size, nodes[1] > 1)


def test_ports_of_services_are_dropped_and_others_stay() -> None:
    link = "tcp://10.0.0.1:80"
    kept = {"PMI_PORT": "node0:39063", "MASTER_PORT": "29500", "QA_PORT": link}
    assert drop_links({**kept, "MULTINODE_SSH_PORT": link, "PET_MASTER_PORT": link}) == kept
