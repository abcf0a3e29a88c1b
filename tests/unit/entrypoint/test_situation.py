"""What is said of a command in the world that it finds itself in."""

from __future__ import annotations

import pytest

from entrypoint.situation import check_world, find_kind, name_task, warn_launcher
from entrypoint.tasks.job import Job
from entrypoint.tuning.scene import ANY, SINGLE
from entrypoint.world.model import ALONE, MPIJOB_LAUNCHER, TORCHRUN, World

MEETING = World(TORCHRUN, "PET_NNODES", (2, 2), 0, 1, master="pod0", port=29400)
SCRIPT = "`train.py` without {} is started by torchrun"


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("python3 train.py", SCRIPT.format("python3")),
        ("python3 -u train.py --seed 1", SCRIPT.format("python3")),
        ("python3 -W error -u train.py", SCRIPT.format("python3")),
        ("/usr/bin/python3 train.py", SCRIPT.format("/usr/bin/python3")),
        ("python3.11 train.py", SCRIPT.format("python3.11")),
        ("python3 -m pkg.train --seed 1", "`torchrun -m pkg.train` starts ranks of one training"),
        ("python3 -um pkg.train", "`torchrun -m pkg.train` starts ranks of one training"),
        ("python3 -c 1", "as a file, `FILE.py` without python3 is started by torchrun"),
        ("python3 -m torch.distributed.run train.py", None),
        ("python3 -V", None),
        ("python3", None),
        ("bash train.py", None),
    ],
)
def test_a_python_in_a_rendezvous_is_told_who_starts_ranks(line: str, remedy: str | None) -> None:
    name, *words = line.split()
    notes = check_world(Job("plain", name, words), {"PET_NNODES": "2"}, MEETING)
    said = f"{name} starts one process on every node, each by itself; {remedy}"
    assert notes == ([said] if remedy else [])


@pytest.mark.parametrize(
    ("insisted", "said"),
    [
        ("", ["the nodes meet on loopback, where each of them finds only itself: 127.0.0.1", "python3 starts one"]),
        ("8", ["the nodes meet on loopback, where each of them", "the world is smaller than MULTINODE_WORLD_SIZE"]),
    ],
)
def test_nodes_on_loopback_are_told_what_else_is_wrong(insisted: str, said: list[str]) -> None:
    environ = {"PET_NNODES": "2", "PET_MASTER_ADDR": "127.0.0.1", "MULTINODE_WORLD_SIZE": insisted}

    notes = check_world(
        Job("plain", "python3", ["train.py"]), environ, MEETING._replace(node_rank=1, master="127.0.0.1")
    )

    first, second = notes
    assert first.startswith(said[0]) and second.startswith(said[1])


def test_what_a_typed_torchrun_of_one_machine_was_told_to_type_is_not_called_wrong() -> None:
    world = MEETING._replace(node_rank=1, master="127.0.0.1")
    job = Job("plain", "torchrun", ["--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", "train.py"])

    (note,) = check_world(job, {"PET_NNODES": "2", "PET_MASTER_ADDR": "127.0.0.1"}, world, typed=True)

    assert note.startswith(
        "the nodes meet on loopback, where only those on this machine find each other: 127.0.0.1; try"
    )


@pytest.mark.parametrize(
    ("name", "kind"), [("python3", SINGLE), ("/usr/bin/python3", SINGLE), ("/opt/python3/tool", ANY), ("bash", ANY)]
)
def test_a_python_is_one_process_wherever_it_lies(name: str, kind: str) -> None:
    assert find_kind(Job("plain", name, []), World(ALONE, "", local_size=1), None) == kind


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["python3", "/data/train.py", "other.py"], "/data/train.py"),
        (["bash", "-c", "cd /data && python3 train.py; ls"], "train.py"),
        (["sh", "-c", "python3 'train.py'|tee log"], "train.py"),
        (["python3", "/data/launches/relaunch.py"], "/data/launches/relaunch.py"),
        (["/opt/multinode/env/bin/python3", "train.py"], "train.py"),
        (["python3", "/data/launch.py", "train.py"], None),
        (["python3", "-m", "intel_extension_for_pytorch.cpu.launch", "train.py"], None),
        (["python3", "-m", "accelerate.commands.launch", "train.py"], None),
        (["python3", "-m", "torch.distributed.run", "train.py"], "train.py"),
        (["bash", "-c", "torchrun --nproc_per_node 2 train.py"], "train.py"),
        (["bash", "-c", "mpirun_rsh -np 2 node0 node1 python3 train.py"], None),
        (["bash", "-c", "cd /data;/opt/mpi/bin/mpiexec.hydra -n 2 python3 train.py"], None),
        (["sh", "-c", "python3 'train.py' | tee log"], "train.py"),
        (["bash", "-c", "mpirun python3 train.py"], None),
        (["nice", "ls"], None),
        (["tool", "train.py"], None),
    ],
)
def test_a_script_in_the_launcher_of_an_mpijob_is_named(words: list[str], script: str | None) -> None:
    name, *rest = words
    notes = warn_launcher(Job("plain", name, rest), World(MPIJOB_LAUNCHER, ""))
    assert [note.partition(" runs in the launcher alone")[0] for note in notes] == ([script] if script else [])
    assert warn_launcher(Job("plain", name, rest), World(ALONE, "")) == []


@pytest.mark.parametrize(
    ("words", "task"),
    [
        (["qa", "--seed", "1"], "qa"),
        (["/data/train.py", "other.py"], "train.py"),
        (["torchrun", "--nnodes", "2", "/data/train.py"], "train.py"),
        (["/usr/bin/torchrun", "-m", "pkg.train"], "torchrun"),
    ],
)
def test_a_job_is_named_after_its_script_or_program(words: list[str], task: str) -> None:
    assert name_task(Job("plain", words[0], words[1:])) == task
