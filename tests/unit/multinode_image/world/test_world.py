"""What the table of launchers lacks: contradictions, launchers inside each other, layouts, and any environment."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multinode_image.errors import EXIT_USER, Refusal
from multinode_image.machine.cpus import Machine
from multinode_image.reading import PORT, whole
from multinode_image.tuning.context import Process, set_local_size
from multinode_image.tuning.variables import set_rank_variables, tune
from multinode_image.world import alone
from multinode_image.world.model import ALONE, MPI, Names, RankLauncher
from multinode_image.world.ranks import (
    PORTS,
    choose_port,
    count_tasks,
    find_first_host,
    find_job,
    first_host,
    is_in_step,
    read_layout,
    read_rank,
)
from multinode_image.world.table import HYDRA, complete_variables, detect, start_by_mpirun_like
from tests.support.environments import ENVIRONMENTS
from tests.support.launchers import left_by
from tests.support.machines import Box, docker, look_at
from tests.support.starts import CCL

SAGEMAKER = "/opt/ml/input/config/resourceconfig.json"

INTEL = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
APART = {**INTEL, "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
OPEN = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
ONE = {"PMI_RANK": "0", "PMI_SIZE": "1"}
ELASTIC = {"PET_RDZV_ENDPOINT": "w-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:4"}
MASTER = {"MASTER_ADDR": "m", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "1", "PET_NNODES": "2"}
SECOND = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "m"}
BY_HAND = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "10.77.0.1"}
DSTACK = left_by("dstack")


@pytest.mark.parametrize(
    ("environ", "fact"),
    [
        # Numbers, ports and hosts that are none.
        ({**ELASTIC, "PET_NNODES": "4:1"}, "PET_NNODES is neither a number nor a range"),
        ({**ELASTIC, "PET_NNODES": "2:"}, "PET_NNODES is neither a number nor a range"),
        ({**ELASTIC, "PET_NPROC_PER_NODE": "two"}, "PET_NPROC_PER_NODE is not a number"),
        ({**SECOND, "PET_MASTER_PORT": "0"}, "the master's port is not a number"),
        ({**INTEL, "MASTER_PORT": "70000"}, "the master's port is not a number"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": ":23456"}, "the rendezvous names no host"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": '"w-0:23456"'}, "the rendezvous names no host"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "http://w-0:23456"}, "the rendezvous names no host"),
        ({**SECOND, "PET_MASTER_ADDR": "m:29500"}, "PET_MASTER_ADDR is neither a name nor an address"),
        ({**APART, "MASTER_ADDR": "[fd00::1]:29500"}, "MASTER_ADDR is neither a name nor an address"),
        # What is left of another job, and what does not fit.
        ({**INTEL, "PMI_RANK": "2"}, "the rank is not below the size of the world"),
        ({**MASTER, "RANK": "2"}, "the node's rank is not below the number of nodes"),
        ({**INTEL, "MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2"}, "two launchers give this process"),
        ({**ELASTIC, "PET_NNODES": ""}, "nothing says how many nodes meet there"),
        ({"PET_MASTER_ADDR": "m", "PET_NNODES": "2"}, "no variable tells which node this is"),
        # Several nodes that would each find only themselves.
        ({**APART, "MASTER_ADDR": "localhost"}, "the ranks are on several nodes and MASTER_ADDR is this node only"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "[::]:29400"}, "the nodes meet on loopback"),
        ({**SECOND, "PET_MASTER_ADDR": "127.0.0.1"}, "the nodes meet on loopback"),
        # Schedulers that do not say enough.
        ({**DSTACK, "DSTACK_NODES_NUM": "0"}, "the job does not say which of its nodes this one is"),
        ({**left_by("sagemaker"), "SM_CURRENT_HOST": "algo-3"}, "the job does not say which of its nodes this one is"),
        ({**left_by("volcano"), "VC_TASK_INDEX": "2"}, "the job does not say which of its nodes this one is"),
        ({**DSTACK, "DSTACK_NODE_RANK": "2"}, "the job does not say which of its nodes this one is"),
    ],
)
def test_what_contradicts_itself_is_refused(environ: dict[str, str], fact: str) -> None:
    with pytest.raises(Refusal) as caught:
        detect(environ)
    assert caught.value.fact.startswith(fact) and caught.value.code == EXIT_USER


@pytest.mark.parametrize(
    ("environ", "value"),
    [
        (left_by("intel-mpi-1", "open-mpi-0"),
         "PMI_RANK=1 PMI_SIZE=2, OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2"),
        ({**left_by("sagemaker"), "SM_CURRENT_HOST": "x"}, "SM_CURRENT_HOST=x of 2 in SM_HOSTS"),
        ({**DSTACK, "DSTACK_NODE_RANK": "2"}, "DSTACK_NODE_RANK=2 of 2 in DSTACK_NODES_NUM"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_variables_that_contradict(environ: dict[str, str], value: str) -> None:
    with pytest.raises(Refusal) as caught:
        detect(environ)
    assert caught.value.value == value


@pytest.mark.parametrize(
    ("left", "more", "kind", "place"),
    [
        ((), {"RANK": "0", "MASTER_ADDR": "127.0.0.1"}, "alone", (None, None)),
        # One inside the other, the innermost last: its variables are the ones that count.
        (("mpijob-worker", "intel-mpi-two-hosts-1"), {}, "mpi", (1, 2)),
        (("mpijob-launcher-open", "open-mpi-1"), {}, "mpi", (1, 2)),
        (("pytorchjob-elastic-master", "mpich-1"), {}, "mpi", (1, 2)),
        (("trainer-v2", "open-mpi-0"), {}, "mpi", (0, 2)),
        (("slurm-step", "slurm-pmi2"), {"MPI_LOCALNRANKS": "2", "PMI_RANK": "1"}, "mpi", (1, 4)),
        (("intel-mpi-two-hosts-1", "torchrun-worker"), {}, "torchrun-worker", (1, 2)),
        (("slurm-one-task", "pytorchjob-elastic"), {}, "torchrun", (None, None)),
        (("skypilot", "open-mpi-1"), {}, "mpi", (1, 2)),
        (("slurm-step", "flux"), {"FLUX_TASK_RANK": "2"}, "mpi", (2, 4)),
        (("slurm-step",), {"FLUX_JOB_ID": "f2", "FLUX_JOB_SIZE": "4"}, "slurm", (3, 4)),
        # A world of one proves nothing.
        ((), ONE, "mpi", (0, 1)),
        ((), {**ONE, **OPEN}, "mpi", (3, 4)),
        (("slurm-one-task",), ONE, "alone", (None, None)),
        (("slurm-one-task",), {**ONE, "MPI_LOCALNRANKS": "1"}, "mpi", (0, 1)),
        (("slurm-step",), ONE, "slurm", (3, 4)),
        (("trainer-v2",), ONE, "torchrun", (None, None)),
        ((), {**ONE, "FLUX_JOB_SIZE": "1"}, "alone", (None, None)),
    ],
)
def test_the_innermost_launcher_counts(
    left: tuple[str, ...], more: dict[str, str], kind: str, place: tuple[int | None, int | None]
) -> None:
    world = detect({**left_by(*left), "MASTER_ADDR": "n03", **more})
    assert (world.launcher, (world.rank, world.size)) == (kind, place)


@pytest.mark.parametrize(
    ("environ", "nproc", "nodes", "asked"),
    [
        ({**ELASTIC, "PET_NPROC_PER_NODE": "2"}, None, (1, 4), "2:8"),
        ({**ELASTIC, "PET_NPROC_PER_NODE": "auto"}, 3, (1, 4), "3:12"),
        ({**ELASTIC, "PET_NPROC_PER_NODE": "4096"}, None, (1, 4), "4096:16384"),
        ({"PET_MASTER_ADDR": "m", "PET_NNODES": "1:2", "PET_NODE_RANK": "1"}, 3, (2, 2), "6"),
        ({"PET_MASTER_ADDR": "m", "WORLD_SIZE": "2", "RANK": "1"}, None, (2, 2), "2"),
        ({"MASTER_ADDR": "m", "WORLD_SIZE": "2", "RANK": "0"}, 3, (2, 2), "6"),
        # On one node only if something says so.
        ({**BY_HAND, "LOCAL_WORLD_SIZE": "2"}, None, (2, 2), "4"),
        ({**BY_HAND, "NODE_RANK": "1"}, None, (2, 2), "4"),
        ({**BY_HAND, "NODE_RANK": "3"}, None, (1, 4), "4"),
        ({**BY_HAND, "MASTER_ADDR": "127.0.0.1"}, None, (1, 1), "4"),
        ({**SECOND, "PET_MASTER_ADDR": "localhost", "PET_NODE_RANK": "0"}, None, (2, 2), "2"),  # an older PyTorchJob
        ({"MASTER_ADDR": "localhost", "WORLD_SIZE": "2", "RANK": "1"}, None, (2, 2), "2"),  # two on one machine
        (ONE, 2, (1, 1), "2"),
    ],
)
def test_nodes_and_processes_are_counted(
    environ: dict[str, str], nproc: int | None, nodes: tuple[int, int], asked: str
) -> None:
    world = detect(environ, nproc)
    assert (world.nodes, world.size_text) == (nodes, asked)


@pytest.mark.parametrize(
    ("local", "count", "around", "size", "nodes", "ranks"),
    [
        ("", "", "", 4, (1, 4), 4),
        ("9", "", "", 4, (1, 1), 4),
        ("2", "", "", 5, (3, 3), 2),
        ("", "2", "", 5, (2, 2), 3),
        ("", "9", "", 4, (4, 4), 1),
        ("2", "3", "", 8, (3, 3), 2),  # the nodes have not all as many
        ("2", "1", "", 8, (2, 2), 2),  # a number that is left over: there are more ranks than here
        ("2", "9", "", 4, (4, 4), 2),  # nodes without a rank
        ("4", "", "9", 8, (2, 2), 4),  # mpirun on a part of the allocation
        ("4", "", "1", 16, (4, 4), 4),  # mpirun typed in a step of one node
        ("3", "", "3", 8, (3, 3), 3),
        ("4", "", "2", 5, (2, 2), 4),  # 4 and 1: a node that is full, and another
        ("", "", "4", 6, (4, 4), 2),  # mpirun says nothing of this node
    ],
)
def test_the_ranks_of_this_node_and_the_nodes_are_counted(
    local: str, count: str, around: str, size: int, nodes: tuple[int, int], ranks: int
) -> None:
    launcher = RankLauncher(MPI, Names(local_size=("LOCAL",), nodes=("NODES",)), allocation=("AROUND",))
    assert read_layout({"LOCAL": local, "NODES": count, "AROUND": around}, launcher, size) == (nodes, ranks)


@pytest.mark.parametrize(
    ("more", "rank"),
    [
        ({"JOB_COMPLETION_INDEX": "2", "PET_NODE_RANK": "1"}, 1),
        ({"JOB_COMPLETION_INDEX": "2", "PET_NODE_RANK": " "}, 2),
        ({"JOB_COMPLETION_INDEX": "0", "RANK": "1"}, 1),
        ({"JOB_COMPLETION_INDEX": "3", "PET_NNODES": "1"}, None),
    ],
)
def test_a_pod_of_an_indexed_job_has_its_number(more: dict[str, str], rank: int | None) -> None:
    assert detect({"PET_NNODES": "3", "PET_MASTER_ADDR": "qa-0.qa", **more}).node_rank == rank


@pytest.mark.parametrize(
    ("left", "more", "job"),
    [
        (("slurm-batch", "intel-mpi-1"), {}, "I_MPI_HYDRA_UUID=18680000-7a56-82ca-c460-06002718c871"),
        (("slurm-batch", "mpich-1"), {}, "SLURM_JOB_ID=7"),
        (("mpich-1",), {"PALS_APID": "6a"}, "PALS_APID=6a"),
        (("mpich-1",), {}, ""),
        (("slurm-step",), {}, "SLURM_JOB_ID=7.0"),
        (("slurm-step",), {"SLURM_HET_JOB_ID": "6"}, "SLURM_HET_JOB_ID=6"),
        (("volcano",), {"VC_JOB_NAME": "a"}, "VC_JOB_NAME=a"),
        (("volcano",), {"VC_JOB_NAME": "a", "VC_TASK_INDEX": ""}, "VC_JOB_NAME=a"),  # an older one
        (("pytorchjob-elastic",), {}, "qa"),
        (("pytorchjob-elastic",), {"SLURM_JOB_ID": "7"}, "qa-7"),
        (("pytorchjob-elastic",), {"SLURM_JOB_ID": "7", "SLURM_HET_JOB_ID": "6"}, "qa-6"),
        (("pytorchjob-elastic",), {"PET_RDZV_ID": "mine"}, "mine"),
        ((), {"PET_MASTER_ADDR": "m", "PET_NNODES": "1"}, ""),
    ],
)
def test_a_job_has_the_name_that_only_its_ranks_share(left: tuple[str, ...], more: dict[str, str], job: str) -> None:
    assert detect({**left_by(*left), **more}, task="qa").job == job


def test_the_surest_name_of_a_job_counts() -> None:
    names = (
        "I_MPI_HYDRA_UUID", "PALS_APID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "FLUX_JOB_ID", "PMI_JOBID",
        "SLURM_HET_JOB_ID", "SLURM_JOB_ID",
    )  # fmt: skip
    for number, name in enumerate(names):
        assert detect({**INTEL, **dict.fromkeys(names[number:], "7")}).job == f"{name}=7"


@pytest.mark.parametrize(
    ("rank", "size"),
    [
        ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"), ("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"),
        ("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ],
)  # fmt: skip
def test_a_rank_of_mpirun_knows_its_place_on_its_node(rank: str, size: str) -> None:
    world = detect({"PMI_RANK": "4", "PMI_SIZE": "6", "MASTER_ADDR": "m", rank: "1", size: "3"})
    assert (world.local_rank, world.local_size, world.nodes) == (1, 3, (2, 2))


ACME = {"ACME_RANK": "3", "ACME_SIZE": "4", "ACME_LOCAL_RANK": "1", "ACME_LOCAL_SIZE": "2"}


@pytest.mark.parametrize(
    ("more", "master"),
    [
        ({"ACME_MASTER": "a"}, "a"),
        ({"ACME_MASTER": "a,b"}, "a"),
        ({"ACME_MASTER": "a", "MASTER_ADDR": "b"}, "b"),
        ({"ACME_MASTER": "a", "ACME_LOCAL_SIZE": "4"}, "127.0.0.1"),
        ({"ACME_MASTER": "a:1"}, "ACME_MASTER is neither a name nor an address"),
        ({"ACME_MASTER": "localhost"}, "MASTER_ADDR is this node only"),
        ({}, "MASTER_ADDR is not set"),
    ],
)
def test_a_launcher_of_ranks_may_name_the_master_in_its_row(more: dict[str, str], master: str) -> None:
    row, environ = start_by_mpirun_like("ACME", "")._replace(hosts="ACME_MASTER"), {**ACME, **more}

    assert row.proves(environ)
    try:
        read = read_rank(environ, row)
    except Refusal as refusal:
        assert master in refusal.finding
    else:
        assert (read.master, read.rank, read.local_rank, read.local_size) == (
            master, 3, 1, int(environ["ACME_LOCAL_SIZE"]),
        )  # fmt: skip


def test_the_first_host_of_a_list_is_the_same_for_all_whatever_its_order() -> None:
    environ = left_by("sagemaker")
    hosts = json.loads(environ["SM_HOSTS"])
    masters = {detect({**environ, "SM_HOSTS": json.dumps(names)}).master for names in (hosts, hosts[::-1])}

    assert masters == {min(hosts)}


def test_two_jobs_on_one_node_have_two_ports() -> None:
    assert min(PORTS) > 10000 and max(PORTS) < PORT < 30000
    assert len({choose_port(f"SLURM_JOB_ID={job}.0") for job in range(1000)}) > 900
    assert choose_port("") == PORT and choose_port("FLUX_JOB_ID=\udcc6\u0192") in PORTS
    step = left_by("slurm-step")
    ports = [detect({**step, **more}).port for more in ({}, {"SLURM_PROCID": "0"}, {"SLURM_STEP_ID": "1"})]
    assert ports[0] == ports[1] != ports[2]
    assert detect({**step, "MASTER_PORT": "1234"}).port == 1234


@pytest.mark.parametrize(
    ("typed", "outer", "world"),
    [
        ({"PET_NPROC_PER_NODE": "2"}, (), ("alone", (1, 1), None)),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "m"}, ("slurm-step",), ("torchrun", (2, 2), 1)),
        ({"PET_NNODES": "1:2", "PET_RDZV_ENDPOINT": "m:7"}, ("intel-mpi-1",), ("torchrun", (1, 2), None)),
    ],
)
def test_a_typed_torchrun_has_a_world_of_its_own(
    typed: dict[str, str], outer: tuple[str, ...], world: tuple[str, tuple[int, int], int | None]
) -> None:
    detected = detect(left_by(*outer), typed={"PET_NPROC_PER_NODE": "2", **typed})
    assert (detected.launcher, detected.nodes, detected.node_rank, detected.local_size) == (*world, 2)
    assert detected.outer is not None and detected.outer.started == bool(outer)


# Slurm's lists, as `scontrol show hostnames` reads them.
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("node0", "node0"),
        ("node0,node1", "node0"),
        ("n[003-007,9],login1", "n003"),
        ("n[9,003-007]", "n9"),
        ("rack[0-1]n[003-007,9],login1", "rack0n003"),
        ("rack[2,4]-n[1-2]-ib,a", "rack2-n1-ib"),
    ],
)
def test_the_first_host_is_that_of_the_whole_list(text: str, first: str) -> None:
    assert first_host(text) == first


@pytest.mark.parametrize(
    ("text", "node", "size", "count"),
    [
        ("3,1", "1", 4, 1),
        ("2(x2),1", "2", 5, 1),
        ("2(x2),1", "3", 5, None),
        ("3,1", "0", 5, None),  # a component of a heterogeneous step has a list of its own
        ("x", "0", 4, None),
        ("1(x999999999)", "7", 999999999, 1),
    ],
)
def test_the_tasks_of_a_node_of_slurm_are_counted(text: str, node: str, size: int, count: int | None) -> None:
    assert count_tasks({"SLURM_STEP_TASKS_PER_NODE": text, "SLURM_NODEID": node}, size) == count


@pytest.mark.parametrize(
    ("environ", "host"),
    [
        ({"SLURM_STEP_NODELIST": "n[03-04]"}, "n03"),
        ({"SLURM_STEP_NODELIST": "n[03-04]", "SLURM_HOSTFILE": "/hosts"}, ""),
        ({"SLURM_STEP_NODELIST": "n[03-04]", "SLURM_HET_SIZE": "2"}, ""),
        ({"SLURM_STEP_NODELIST": "n[03-04]", "SLURM_ARBITRARY_NODELIST": "n04,n03"}, ""),
    ],
)
def test_the_node_of_rank_0_is_guessed_only_where_the_order_is_known(environ: dict[str, str], host: str) -> None:
    assert find_first_host(environ) == host


HOSTS_OF_JOB = '{"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0"}'


@pytest.mark.parametrize(
    ("environ", "files", "variables"),
    [
        ({"PBS_NODEFILE": "/n"}, {"/n": "a\na\nb\n"}, {"PBS_NUM_NODES": "2"}),
        ({"PBS_NODEFILE": "/n", "PBS_NUM_NODES": "3"}, {"/n": "a\n"}, {}),
        ({}, {SAGEMAKER: HOSTS_OF_JOB}, {"SM_HOSTS": "algo-1,algo-2", "SM_CURRENT_HOST": "algo-2"}),
        ({"SM_HOSTS": "a"}, {SAGEMAKER: HOSTS_OF_JOB}, {}),
        ({}, {SAGEMAKER: "[]"}, {}),
    ],
)
def test_what_files_say_counts_as_variables(
    environ: dict[str, str], files: dict[str, str], variables: dict[str, str]
) -> None:
    assert complete_variables(environ, lambda path: files.get(path)) == {**environ, **variables}


@given(st.text() | st.recursive(st.none() | st.text(), lambda nested: st.dictionaries(st.text(), nested)).map(repr))
def test_any_file_of_sagemaker_can_be_read(text: str) -> None:
    assert set(complete_variables({}, {SAGEMAKER: text}.get)) <= {"SM_HOSTS", "SM_CURRENT_HOST"}


# Any environment.
SIZES = ("WORLD_SIZE", "PET_NNODES", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "SLURM_JOB_NUM_NODES")
RANKS = ("RANK", "LOCAL_RANK", "PET_NODE_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
MACHINES = st.sampled_from([look_at(Box(1, 2), docker(1.5)), look_at(Box(2, 28, 2))])


@settings(max_examples=50)
@given(ENVIRONMENTS, MACHINES, st.sampled_from([None, 1, 3]))
def test_any_environment_gives_a_decision_or_the_one_error(
    environ: dict[str, str], machine: Machine, nproc: int | None
) -> None:
    try:
        world = set_local_size(detect(environ, nproc), machine)
        alone.check(environ, world)
        process = Process(find_interface=lambda: "eth0", has_file=lambda path: True)
        rows = [*tune(world, machine, environ, CCL, process).settings, *set_rank_variables(world, environ)]
    except Refusal as refusal:
        assert refusal.fact and refusal.value and refusal.remedy and refusal.code == 2
        return
    assert all(row.name and row.value for row in rows)
    low, high = world.sizes
    assert 1 <= low <= high
    assert world.rank is None or 0 <= world.rank < high
    if world.launcher == ALONE and environ.get("MULTINODE_WORLD_SIZE", "").strip() != "1":
        box = is_in_step(environ) or world.started_alone
        counted = [name for name in (*SIZES, *RANKS) if not (box and name.startswith("SLURM_"))]
        assert not [name for name in counted if (whole(environ.get(name, "")) or 0) > (name in SIZES)]


@pytest.mark.parametrize(
    ("more", "job"),
    [
        ({"PALS_APID": "7#node1", "PMI_JOBID": "9"}, "PALS_APID=7"),  # what follows is another on each node
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, "SLURM_JOB_ID=7.0"),
        ({"SLURM_JOB_ID": "7"}, "SLURM_JOB_ID=7"),
        ({}, ""),
    ],
)
def test_what_only_a_job_shares_is_the_same_on_all_its_nodes(more: dict[str, str], job: str) -> None:
    assert find_job(more, HYDRA.names.job) == job
