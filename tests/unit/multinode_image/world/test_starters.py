"""Typed programs that start ranks, and what a typed Python runs."""

from __future__ import annotations

import pytest

from multinode_image.world.starters import find_code, find_lone, find_start


@pytest.mark.parametrize(
    ("line", "program", "count"),
    [
        ("torchrun --nproc-per-node 2 run_qa.py", "torchrun", None),
        ("/usr/local/bin/torchrun", "torchrun", None),
        ("python3 -m torch.distributed.run x.py", "torchrun", None),
        ("python -u -m torch.distributed.launch --use_env x.py", "torchrun", None),
        ("python3 -W ignore -X faulthandler -m torch.distributed.run x.py", "torchrun", None),
        ("python3 -mtorch.distributed.run x.py", "torchrun", None),
        ("python3 --check-hash-based-pycs never -m torch.distributed.run x.py", "torchrun", None),
        ("accelerate launch --config_file c.yaml x.py", "accelerate", 1),
        ("accelerate-launch x.py", "accelerate", 1),
        ("python3 -m accelerate.commands.launch x.py", "accelerate", 1),
        *(
            (f"{name} -n 4 python3 x.py", "mpirun", None)
            for name in ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
        ),
    ],
)
def test_a_program_that_starts_ranks(line: str, program: str, count: int | None) -> None:
    start = find_start(line.split())
    assert start is not None and (start.program, start.local_size) == (program, count)
    assert start.must_be_asked is (program == "torchrun")


@pytest.mark.parametrize(
    "line",
    ["bash", "accelerate env", "accelerate", "python3 x.py -m torch.distributed.run", "python3 -c x -m accelerate",
     "python3 torch.distributed.run", "torchrun.py"],
)  # fmt: skip
def test_a_program_that_starts_no_ranks(line: str) -> None:
    assert find_start(line.split()) is None


@pytest.mark.parametrize(
    ("line", "lone"),
    [
        ("python3 x.py --nproc 2", "x.py"),
        ("python3 -m train --lr 1", "-m train"),
        ("accelerate launch --cpu x.py", ""),
        ("torchrun --nproc-per-node 2 x.py", ""),
        ("mpirun -n 4 python3 x.py", ""),
        ("python3 -c pass", ""),
        ("bash x.sh", ""),
    ],
)
def test_what_a_python_runs_in_one_process_is_named_as_it_is_typed_for_ranks(line: str, lone: str) -> None:
    assert find_lone(line.split()) == lone


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("/usr/bin/python3.11 -W error -u x.py -m", ("", "x.py", ["-m"])),
        ("python3 -um pkg.train x.py", ("m", "pkg.train", ["x.py"])),
        ("python3 -c 1 x.py", ("c", "1", ["x.py"])),
        ("python3 -u -- x.py", ("", "x.py", [])),
        ("python3 - x.py", ("", "-", ["x.py"])),
        ("python3 -m torch.distributed.run x.py", ("", "", [])),
        ("torchrun x.py", ("", "", [])),
        ("accelerate launch --cpu x.py", ("", "", [])),
        ("mpirun -n 2 python3 x.py", ("", "", [])),
        ("bash x.py", ("", "", [])),
    ],
)
def test_what_a_python_runs(line: str, runs: tuple[str, str, list[str]]) -> None:
    assert tuple(find_code(line.split())) == runs
