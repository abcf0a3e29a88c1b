"""How cores are going to be divided: the same numbers as in the pod, which the entrypoint's own tests hold."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.tasks.job import SMOKE, Job
from tests.support.launchers import left_by
from tests.support.machines import Box, look_at, pod
from tests.support.manifests import write
from tests.support.starts import make_facts, make_plan

# Kind, what is typed, and the line that is printed.
LINES = [
    ("pytorchjob", "--cpu 8", "1 to 4 pod(s) x 1 process(es) x 8 thread(s); with oneCCL 7 and a worker, on 8 core(s)"),
    ("pytorchjob", "--cpu 8 --elastic off", "4 pod(s) x 1 process(es) x 8 thread(s)"),
    ("pytorchjob", "--cpu 1", "1 to 4 pod(s) x 1 process(es) x 1 thread(s), on 1 core(s)"),
    ("pytorchjob", "--cpu 2400m", "1 to 4 pod(s) x 1 process(es) x 2 thread(s)"),
    ("pytorchjob", "--cpu 2500m", "1 to 4 pod(s) x 1 process(es) x 3 thread(s)"),
    ("pytorchjob", "--cpu 8 --nproc 2", "x 2 process(es) x 4 thread(s); with oneCCL 3 and a worker, on 8 core(s)"),
    # A pod that fills both NUMA nodes gets a process for each; threads of a core are counted once.
    ("pytorchjob", "--cpu 8 --node-shape 2x4", "x 2 process(es) x 4 thread(s)"),
    ("pytorchjob", "--cpu 8 --node-shape 2x2x2", "x 2 process(es) x 2 thread(s)"),
    ("pytorchjob", "--cpu 4 --node-shape 2x8", "x 1 process(es) x 4 thread(s)"),
    ("pytorchjob", "--cpu 8 --env OMP_NUM_THREADS=3 --node-shape 2x4", "x 2 process(es) x 3 thread(s), on 8 core(s)"),
    ("pytorchjob", "--cpu 8 --env N=3 --env OMP_NUM_THREADS=$(N)", "x 1 process(es) x 3 thread(s)"),
    ("pytorchjob", "--cpu 8 --env OMP_NUM_THREADS=16", "16 threads (OMP_NUM_THREADS) on 8 core(s)"),
    ("trainjob", "--cpu 8 --node-shape 2x4", "4 pod(s) x 2 process(es) x 4 thread(s)"),
    ("trainjob", "--cpu 8 --nproc 4 --workers 2", "2 pod(s) x 4 process(es) x 2 thread(s)"),
    ("runtime", "--cpu 8 --node-shape 2x4", "numProcPerNode: 2 belongs into each TrainJob"),
    ("runtime", "--policy mpi --cpu 8 --node-shape 2x4", "4 pod(s) x 2 process(es) x 4 thread(s)"),
    ("mpijob", "--cpu 8 --node-shape 2x4", "4 pod(s) x 2 process(es) x 4 thread(s)"),
    ("mpijob", "--cpu 8 --nproc 8 --workers 1", "1 pod(s) x 8 process(es) x 1 thread(s)"),
]


@pytest.mark.parametrize(("kind", "words", "line"), LINES)
def test_the_division_of_the_cores_is_said_on_stderr(kind: str, words: str, line: str) -> None:
    printed = write(kind, *words.split())

    assert printed.code == 0
    assert line in printed.err


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        # The NUMA nodes of a PyTorchJob's nodes are counted in its pods.
        ("pytorchjob", "--env MULTINODE_WORLD_SIZE=8 --elastic off"),
        ("pytorchjob", "--env MULTINODE_WORLD_SIZE=8 --node-shape 2x4"),
        ("pytorchjob", "--env MULTINODE_WORLD_SIZE=2:"),
        ("trainjob", "--env MULTINODE_WORLD_SIZE=8 --nproc 2"),
        ("mpijob", "--env MULTINODE_WORLD_SIZE=8 --node-shape 2x4"),
        ("runtime", "--env MULTINODE_WORLD_SIZE=8"),
        ("runtime", "--policy mpi --env MULTINODE_WORLD_SIZE=8"),
        ("pytorchjob", "--env MULTINODE_WORLD_SIZE=99 torchrun train.py"),
    ],
)
def test_variables_that_the_entrypoint_takes_are_taken(kind: str, words: str) -> None:
    printed = write(kind, *words.split())

    assert printed.code == 0, printed.err


def find_fault(environ: dict[str, str]) -> str:
    """Return what the entrypoint refuses in a pod; empty where it takes it."""
    try:
        facts = make_facts(environ, Stack("", "", "", "gloo", None, ""), machine=look_at(Box(1, 8, 1), pod(8)))
        make_plan(Job(SMOKE, SMOKE, []), facts)
    except Refusal as refusal:
        return refusal.fact
    return ""


@pytest.mark.parametrize(
    "pairs",
    [
        "PET_RDZV_BACKEND=c10d",
        "PET_RDZV_BACKEND=foo",
        "PET_RDZV_BACKEND=static",
        "PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=node0:29400",
        "PET_RDZV_ENDPOINT=127.0.0.1:1",
        "PET_RDZV_ENDPOINT=0.0.0.0",
        "PET_RDZV_ENDPOINT=:1",
        "PET_STANDALONE=1",
        "PET_STANDALONE=0",
        "PET_STANDALONE=x",
        "PET_RDZV_CONF=timeout=300",
        "MULTINODE_WORLD_SIZE=99",
    ],
)
def test_a_pod_refuses_the_same_variables(pairs: str) -> None:
    """Those of a TrainJob; what needs a network is for the pod alone."""
    typed = pairs.split()
    fault = find_fault({**left_by("trainer-v2"), **dict(pair.split("=", 1) for pair in typed)})

    printed = write("trainjob", "--workers", "2", *(word for pair in typed for word in ("--env", pair)), SMOKE)

    assert printed.err.startswith(f"error: {fault}: ") if fault else printed.code == 0, (fault, printed.err)


@pytest.mark.parametrize(("words", "said"), [((), True), (("--node-shape", "1x8"), False), (("--nproc", "1"), False)])
def test_what_is_not_known_of_the_nodes_is_said(words: tuple[str, ...], said: bool) -> None:
    assert ("--node-shape 2x56x2 says what they are" in write("pytorchjob", *words).err) is said


def test_the_number_of_processes_is_written_where_an_operator_would_count_cpus() -> None:
    shape = ("--node-shape", "2x4")

    assert write("trainjob", *shape).manifest["spec"]["trainer"]["numProcPerNode"] == 2
    assert write("mpijob", *shape).manifest["spec"]["slotsPerWorker"] == 2
    assert write("pytorchjob", *shape).manifest["spec"]["nprocPerNode"] == "auto"
    assert write("pytorchjob", "--nproc", "2").manifest["spec"]["nprocPerNode"] == "2"


@pytest.mark.parametrize(("memory", "code"), [("767Mi", 2), ("768Mi", 0)])
def test_smoke_needs_less_memory_than_a_training(memory: str, code: int) -> None:
    assert write("pytorchjob", "--memory", memory, "smoke").code == code
