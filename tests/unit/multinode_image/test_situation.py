"""A command that would train apart from others is refused, or told what to type."""

from __future__ import annotations

import contextlib

import pytest

from multinode_image.errors import Refusal
from multinode_image.situation import name_training
from multinode_image.tasks.command import DOCTOR, PLAIN, SCRIPT, SMOKE, Command, Kind
from multinode_image.tuning.context import Role
from tests.support.launchers import left_by
from tests.support.starts import find_situation, make_facts

NODES = {"PET_NNODES": "2", "PET_MASTER_ADDR": "pod0", "PET_NODE_RANK": "1"}
LAUNCHER = {"K_MPI_JOB_ROLE": "launcher"}
ONE = {"MULTINODE_WORLD_SIZE": "1"}
SHELL = ["bash", "-c"]
TYPED = "torchrun --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 x.py"


def find(words: list[str], environ: dict[str, str]) -> tuple[str, str]:
    """Return `refused`, `noted` or nothing for a typed command, and what is said."""
    try:
        notes = find_situation(Command(PLAIN, words[0], words[1:]), make_facts(environ)).notes
    except Refusal as refusal:
        return "refused", refusal.note
    return "noted" if notes else "", " ".join(notes)


@pytest.mark.parametrize(
    ("words", "environ", "kind", "said"),
    [
        # on a node of a rendezvous it may train nothing: what trains is ended at its first step
        (["python3", "-u", "train.py", "--seed", "1"], NODES, "", ""),
        (["python3", "-W", "error", "-u", "train.py"], NODES, "", ""),
        (["/usr/bin/python3.11", "train.py"], NODES, "", ""),
        (["python3", "train.py"], {**NODES, "PET_NNODES": "1", "PET_NODE_RANK": "0"}, "", ""),
        (["python3", "-um", "pkg.train"], NODES, "", ""),
        (["accelerate", "launch", "--cpu", "train.py"], NODES, "", ""),
        (["accelerate", "launch", "-m", "pkg.train"], NODES, "", ""),
        (["accelerate", "launch", "--multi_gpu", "train.py"], NODES, "", ""),
        (["accelerate", "env"], NODES, "", ""),
        (["python3", "-c", "1"], NODES, "", ""),
        (["python3", "-m", "torch.distributed.run", "train.py"], NODES, "", ""),
        (["python3", "-V"], NODES, "", ""),
        (["bash", "train.py"], NODES, "", ""),
        (["torchrun", "train.py"], NODES, "", ""),
        # nodes that meet on loopback: a shell is no training, and a typed torchrun may mean others on this machine
        (["bash"], {**NODES, "PET_MASTER_ADDR": "127.0.0.1"}, "noted", "loopback"),
        (TYPED.split(), {}, "noted", "loopback"),
        # no worker of an MPIJob would take part
        (["python3", "/data/train.py", "other.py"], LAUNCHER, "refused", "/data/train.py"),
        (["/opt/multinode/env/bin/python3", "train.py"], LAUNCHER, "refused", "train.py"),
        (["python3", "-m", "intel_extension_for_pytorch.cpu.launch", "train.py"], LAUNCHER, "", ""),
        ([*SHELL, "mpirun python3 train.py"], LAUNCHER, "", ""),
        (["tool", "train.py"], LAUNCHER, "", ""),
        # one process is what was meant, or several of which this is none
        (["python3", "train.py"], {**LAUNCHER, **ONE}, "", ""),
        (["python3", "train.py"], {**NODES, **ONE}, "", ""),
        (["accelerate", "launch", "train.py"], {**NODES, **ONE}, "", ""),
        (["python3", "train.py"], {**NODES, "MULTINODE_WORLD_SIZE": "1:1"}, "", ""),
        (["python3", "train.py"], {**LAUNCHER, "MULTINODE_WORLD_SIZE": "4"}, "refused", "train.py without python3"),
    ],
)
def test_a_script_that_would_train_apart_is_refused(
    words: list[str], environ: dict[str, str], kind: str, said: str
) -> None:
    found, text = find(words, environ)

    assert found == kind and said in text


@pytest.mark.parametrize(
    ("words", "task"),
    [
        (["qa", "--seed", "1"], "qa"),
        (["/data/train.py", "other.py"], "train.py"),
        (["torchrun", "--nnodes", "2", "/data/train.py"], "train.py"),
        (["/usr/bin/torchrun", "-m", "pkg.train"], "pkg.train"),
        (["python3", "-m", "torch.distributed.run", "-m", "pkg.train"], "pkg.train"),
        (["-m", "pkg.train", "--seed", "1"], "pkg.train"),
    ],
)
def test_a_job_is_named_after_its_script_or_program(words: list[str], task: str) -> None:
    assert name_training(Command(PLAIN, words[0], words[1:])) == task


@pytest.mark.parametrize(
    ("job", "refused"),
    [
        (Command(SMOKE, "smoke", []), True),
        (Command(PLAIN, "torchrun", ["x.py"]), True),
        (Command(PLAIN, "python3", ["x.py"]), True),
        (Command(PLAIN, "bash", []), False),
        (Command(DOCTOR, "doctor", []), False),
    ],
)
def test_a_number_of_threads_that_openmp_ignores_stops_what_computes(job: Command, refused: bool) -> None:
    facts = make_facts({"OMP_NUM_THREADS": '"1"'})
    with pytest.raises(Refusal) if refused else contextlib.nullcontext():
        find_situation(job, facts)


@pytest.mark.parametrize(
    ("kind", "line", "left", "nproc", "role"),
    [
        (SMOKE, "smoke", "", 1, Role.RANK),
        (SMOKE, "smoke", "", 2, Role.AGENT),
        (SCRIPT, "train.py", "intel-mpi-1", None, Role.RANK),
        (SCRIPT, "train.py", "pytorchjob-elastic", None, Role.AGENT),
        (PLAIN, "torchrun --nproc-per-node 2 train.py", "", None, Role.TORCHRUN),
        (PLAIN, TYPED, "slurm-step", None, Role.TORCHRUN),
        (PLAIN, "mpirun -n 2 python3 train.py", "", None, Role.STARTER),
        (PLAIN, "accelerate launch --multi_gpu train.py", "", None, Role.STARTER),
        (PLAIN, "accelerate launch train.py", "", None, Role.ANY),  # one process, which may be any program
        (PLAIN, "mpirun -n 2 python3 train.py", "intel-mpi-1", None, Role.MEMBER),
        (PLAIN, "python3 train.py", "intel-mpi-1", None, Role.MEMBER),
        (PLAIN, "bash", "intel-mpi-1", None, Role.MEMBER),
        (PLAIN, "python3 train.py", "", None, Role.PROGRAM),
        (PLAIN, "/opt/venv/bin/python3.12 -m pkg", "pytorchjob-elastic", None, Role.PROGRAM),
        (PLAIN, "bash", "", None, Role.ANY),
        (PLAIN, "ipython", "pytorchjob-elastic", None, Role.ANY),
    ],
)
def test_a_command_has_one_role(kind: Kind, line: str, left: str, nproc: int | None, role: Role) -> None:
    name, *words = line.split()
    facts = make_facts(left_by(left) if left else {})

    assert find_situation(Command(kind, name, words), facts, nproc).role is role
