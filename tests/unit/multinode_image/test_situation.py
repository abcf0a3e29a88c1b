"""What a start knows before it decides, that it looks once, and how `explain` says it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

import multinode_image.__main__ as program
from multinode_image import decide, situation, start
from multinode_image.errors import Refusal
from multinode_image.explain import one_line
from multinode_image.situation import name_training
from multinode_image.tasks.command import DOCTOR, PLAIN, SCRIPT, SMOKE, Command, Kind
from multinode_image.tuning.context import Role
from multinode_image.world import table
from multinode_image.world.model import World
from tests.support.launchers import left_by
from tests.support.starts import SMOKE as SMOKE_TYPED
from tests.support.starts import Container, find_situation, kernel, make_facts, make_plan, network, place

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
        # nodes that meet on loopback: a shell is no training
        (["bash"], {**NODES, "PET_MASTER_ADDR": "127.0.0.1"}, "noted", "loopback"),
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
    situation, text = find(words, environ)

    assert situation == kind and said in text


@pytest.mark.parametrize(
    ("words", "task"),
    [
        (["qa", "--seed", "1"], "qa"),
        (["/data/train.py", "other.py"], "train.py"),
        (["python3", "-u", "/data/train.py", "--seed", "1"], "train.py"),
        (["python3", "-u", "-m", "pkg.train"], "pkg.train"),
        (["-m", "pkg.train", "--seed", "1"], "pkg.train"),
    ],
)
def test_a_job_is_named_after_its_script_or_program(words: list[str], task: str) -> None:
    assert name_training(Command(PLAIN, words[0], words[1:])) == task


@pytest.mark.parametrize(
    ("job", "refused"),
    [
        (Command(SMOKE, "smoke", []), True),
        (Command(PLAIN, "torchrun", ["x.py"]), False),  # its ranks are planned later
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
        (PLAIN, "torchrun --nproc-per-node 2 train.py", "", None, Role.STARTER),
        (PLAIN, TYPED, "slurm-step", None, Role.STARTER),
        (PLAIN, "mpirun -n 2 python3 train.py", "", None, Role.STARTER),
        (PLAIN, "accelerate launch --multi_gpu train.py", "", None, Role.ANY),  # it says later what it starts
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


POD = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "pod0"}
ELASTIC = {"PET_NNODES": "1:4", "PET_RDZV_ENDPOINT": "pod0:29400", "PET_RDZV_BACKEND": "c10d"}


@pytest.mark.parametrize(
    ("job", "environ", "nproc", "line"),
    [
        (SMOKE_TYPED, {}, 1, "alone, 56 threads"),
        (SMOKE_TYPED, {}, 2, "2 ranks on this node, 28 threads each, gloo on lo"),
        (SMOKE_TYPED, POD, 1, "node 1 of 2, rank 1 of 2, 56 threads, gloo on eth0, meeting at pod0:29500"),
        (SMOKE_TYPED, POD, 2, "node 1 of 2, ranks 2 to 3 of 4, 28 threads each, gloo on eth0, meeting at pod0:29500"),
        (
            SMOKE_TYPED,
            ELASTIC,
            2,
            "one of 1 to 4 nodes, 2 ranks here, 28 threads each, gloo on eth0, meeting at pod0:29400",
        ),
        (
            SMOKE_TYPED,
            left_by("slurm-step"),
            None,
            "rank 3 of 4 on 2 nodes, started by slurm, 28 threads, gloo on eth0, meeting at n03:24921",
        ),
        (SMOKE_TYPED, left_by("intel-mpi-1"), None, "rank 1 of 2, started by mpi, 28 threads, gloo on lo"),
        (Command(PLAIN, "bash", []), POD, None, "one process, in a pod or node of torchrun, 56 threads"),
    ],
)
def test_the_first_line_says_the_place_of_a_rank(
    job: Command, environ: dict[str, str], nproc: int | None, line: str
) -> None:
    assert one_line(make_plan(job, make_facts(environ), nproc)) == line


@pytest.mark.parametrize(
    ("world", "batch", "said"),
    [
        (World("alone", "", local_size=2), 12, "effective batch 24"),
        (World("torchrun", "", (1, 4), local_size=2), 12, "effective batch 24 to 96"),
        (World("mpi", "", rank=0, size=4, local_size=2), 8, "effective batch 32"),
        (World("alone", "", local_size=1), 12, None),
        (World("alone", "", local_size=8), None, None),
    ],
)
def test_the_batch_of_the_world_is_said(world: World, batch: int | None, said: str | None) -> None:
    line = one_line(replace(make_plan(SMOKE_TYPED, make_facts({}), 1), situation=place(world), batch=batch))
    assert said in line if said else "batch" not in line


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        (["smoke"], {}),
        (["--nproc", "2", "smoke", "--bf16"], {}),
        (["smoke"], {**left_by("intel-mpi-1")}),
        (["smoke"], {"PET_NNODES": "2", "PET_MASTER_ADDR": "pod0", "PET_NODE_RANK": "1"}),
        (["true"], {}),
    ],
)
def test_nothing_is_read_detected_or_decided_twice(tmp_path: Path, argv: list[str], environ: dict[str, str]) -> None:
    Container(tmp_path).furnish()
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), **environ}
    with (
        network(),
        kernel() as opened,
        mock.patch.object(os, "execvpe", side_effect=SystemExit),
        mock.patch("multinode_image.__main__.detect_situation", wraps=situation.detect_situation) as detected,
        mock.patch("multinode_image.start.decide", wraps=decide.decide) as decided,
        mock.patch("multinode_image.__main__.find_launcher", wraps=table.find_launcher) as searched,
        pytest.raises(SystemExit),
    ):
        program.main(argv, environ, str(tmp_path))

    assert opened[str(tmp_path / "stack.json")] == opened["/proc/meminfo"] == 1
    assert {path: count for path, count in opened.items() if count > 1} == {}
    assert (searched.call_count, detected.call_count, decided.call_count) == (1, 1, 1)


@pytest.mark.parametrize(
    ("argv", "environ", "is_refused"),
    [
        (["true"], {}, False),
        (["bash", "-c", "true"], {}, False),
        (["smoke"], {}, True),
        (["python3", "train.py"], NODES, False),  # it may train nothing
        (["torchrun", "train.py"], {}, True),
    ],
)
def test_where_no_thread_can_be_started_what_trains_is_refused_and_no_other_program(
    tmp_path: Path, argv: list[str], environ: dict[str, str], is_refused: bool
) -> None:
    Container(tmp_path).furnish()
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), **environ}
    with (
        network(),
        kernel(),
        mock.patch.object(os, "execvpe", side_effect=SystemExit),
        mock.patch.object(start, "wait_for_master"),
        mock.patch.object(start, "find_thread_fault", return_value=Refusal("no room for a thread", "1", "more")),
        contextlib.nullcontext() if is_refused else pytest.raises(SystemExit),
    ):
        assert program.main(argv, environ, str(tmp_path))


def test_a_mistake_of_ours_is_reported_to_the_job_once_and_shown(tmp_path: Path) -> None:
    with (
        mock.patch.object(program, "run", side_effect=LookupError("ours")),
        mock.patch.object(program, "report") as reported,
        pytest.raises(LookupError, match="ours"),
    ):
        program.main(["smoke"], {}, str(tmp_path))

    reported.assert_called_once_with({}, 1)
