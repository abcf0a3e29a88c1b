"""Typed programs that start ranks: how many, and where they meet."""

from __future__ import annotations

import pytest

from multinode_image.world.starters import find_code, find_lone, read_start, replace_auto, walk_options
from multinode_image.world.torchrun import FLAGS


@pytest.mark.parametrize(
    ("line", "program", "count"),
    [
        ("torchrun --nproc-per-node 2 run_qa.py", "torchrun", 2),
        ("torchrun --nnodes 2 --master-addr m --nproc_per_node=4 run_qa.py", "torchrun", 4),
        ("torchrun --nproc-per-node auto run_qa.py", "torchrun", None),
        ("torchrun --standalone run_qa.py --nproc-per-node 2", "torchrun", 1),
        ("torchrun -m package.train --nproc-per-node 2", "torchrun", 1),
        ("/usr/local/bin/torchrun --nproc-per-node 2 x.py", "torchrun", 2),
        ("python3 -m torch.distributed.run --nproc_per_node 2 x.py", "torchrun", 2),
        ("python -u -m torch.distributed.launch --nproc_per_node 2 --use_env x.py", "torchrun", 2),
        ("python3 -W ignore -X faulthandler -m torch.distributed.run --nproc_per_node 2 x.py", "torchrun", 2),
        ("python3 -mtorch.distributed.run --nproc_per_node 2 x.py", "torchrun", 2),
        ("python3 --check-hash-based-pycs never -m torch.distributed.run x.py", "torchrun", 1),
        ("accelerate launch --config_file c.yaml x.py", "accelerate", None),
        ("accelerate launch --cpu x.py", "accelerate", 1),
        ("mpirun -n 4 python3 x.py", "mpirun", None),
    ],
)
def test_the_number_of_ranks_that_is_typed(line: str, program: str, count: int | None) -> None:
    start = read_start(line.split(), {})
    assert start is not None and (start.program, start.local_size) == (program, count)
    asked = read_start(["torchrun", "x.py"], {}, 4)  # of the entrypoint
    assert asked is not None and asked.local_size == 4


@pytest.mark.parametrize(
    ("line", "lone"),
    [
        ("python3 x.py --nproc 2", "x.py"),
        ("python3 -m train --lr 1", "-m train"),
        ("accelerate launch --cpu x.py", "x.py"),
        ("accelerate launch --cpu -m train", "-m train"),
        ("accelerate launch --multi_gpu x.py", ""),
        ("accelerate launch --config_file c.yaml x.py", ""),
        ("torchrun --nproc-per-node 2 x.py", ""),
        ("mpirun -n 4 python3 x.py", ""),
        ("python3 -c pass", ""),
        ("bash x.sh", ""),
    ],
)
def test_what_a_program_runs_in_one_process_is_named_as_it_is_typed_for_ranks(line: str, lone: str) -> None:
    assert find_lone(line.split()) == lone


@pytest.mark.parametrize(
    "line", ["bash", "accelerate env", "python3 x.py -m torch.distributed.run", "python3 -c x -m torch.distributed.run"]
)
def test_a_program_that_starts_no_ranks(line: str) -> None:
    assert read_start(line.split(), {}) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torchrun --nproc-per-node auto x.py --n auto", "torchrun --nproc-per-node 2 x.py --n auto"),
        ("torchrun --nproc-per=auto -m x --nproc-per auto", "torchrun --nproc-per=2 -m x --nproc-per auto"),
        ("torchrun --standalone --nproc-per-node= x", "torchrun --standalone --nproc-per-node=2 x"),
        ("python3 -m torch.distributed.run --nproc-per auto x", "python3 -m torch.distributed.run --nproc-per 2 x"),
        ("mpirun -n 2 torchrun --nproc-per-node auto x.py", "mpirun -n 2 torchrun --nproc-per-node auto x.py"),
        ("torchrun --nproc-per-node 4 auto.py", "torchrun --nproc-per-node 4 auto.py"),
    ],
)
def test_auto_becomes_a_number(line: str, expected: str) -> None:
    assert " ".join(replace_auto(line.split(), 2)) == expected


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("--nnodes 2 x.py --nnodes 3", {"--nnodes": "2"}),
        ("--nnodes=2 --nnodes 3 --standalone x.py", {"--nnodes": "3", "--standalone": "1"}),
        ("-m pkg.train --nnodes 2", {"-m": "1"}),
        ("-r3 -t 3 x.py", {"-r3": "1", "-t": "3"}),
        ("--log-dir= x.py", {"--log_dir": ""}),
        ("--nnodes 2 -- --nproc 4", {"--nnodes": "2"}),
        ("--rdzv-conf a_b=1,b=2 x.py", {"--rdzv_conf": "a_b=1,b=2"}),
        # A beginning of one option is that option; of several, or of none, torchrun refuses it.
        ("--nnode 2 --nproc-per=4 x.py", {"--nnodes": "2", "--nproc_per_node": "4"}),
        ("--standalon --he --mod pkg.train", {"--standalone": "1", "--help": "1", "--module": "1"}),
        ("--master 2 --nodes 2 -n 2 x.py", {"--master": "2", "--nodes": "2", "-n": "2"}),
    ],
)
def test_options_of_torchrun_end_where_the_script_begins(line: str, options: dict[str, str]) -> None:
    assert {name: value for name, value, _ in walk_options(line.split(), FLAGS)} == options


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("torchrun --nnodes 1 x.py --seed 1", ("torchrun", "", "x.py", ["--seed", "1"])),
        ("torchrun --unknown x.py y.py", ("torchrun", "", "x.py", ["y.py"])),
        ("torchrun -m pkg.train x.py", ("torchrun", "m", "pkg.train", ["x.py"])),
        ("torchrun -- x.py", ("torchrun", "", "x.py", [])),
        ("python3 -m torch.distributed.run x.py", ("torchrun", "", "x.py", [])),
        ("/usr/bin/python3.11 -W error -u x.py -m", ("", "", "x.py", ["-m"])),
        ("python3 -um pkg.train x.py", ("", "m", "pkg.train", ["x.py"])),
        ("python3 -c 1 x.py", ("", "c", "1", ["x.py"])),
        ("accelerate launch --cpu x.py", ("accelerate", "", "x.py", [])),
        ("mpirun -n 2 python3 x.py", ("mpirun", "", "", [])),
        ("bash x.py", ("", "", "", [])),
        ("torchrun", ("torchrun", "", "", [])),
    ],
)
def test_what_a_command_line_runs(line: str, runs: tuple[str, str, str, list[str]]) -> None:
    assert find_code(line.split()) == runs
