"""`accelerate launch`: what is typed, and what a configuration file adds to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.errors import Refusal
from entrypoint.machine.files import read_file
from entrypoint.tuning.accelerate import check_asked, count_processes, find_default, read_asked, read_configuration

# As `accelerate config` of 1.15 writes it for two processes on a CPU.
CPU = """\
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: MULTI_CPU
downcast_bf16: 'no'
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 2  # all together
use_cpu: true
"""
MPI = CPU + "mpirun_config:\n  mpirun_ccl: '1'\n  mpirun_hostfile: /hosts\n"
AS_JSON = json.dumps(dict(line.split("#")[0].strip().split(": ") for line in CPU.splitlines()), indent=2)
FILES = {
    "cpu.yaml": CPU, "cpu.json": AS_JSON, "mpi.yaml": MPI, "one.yaml": CPU.replace("processes: 2", "processes: 1"),
    "gpu.yaml": CPU.replace("CPU", "GPU"), "no.yaml": CPU.replace("MULTI_CPU", "'NO'"),
    "/hf/accelerate/default_config.yaml": CPU,
}  # fmt: skip
EMPTY, OWN = {"HF_HOME": "/empty"}, {"HF_HOME": "/hf"}


@pytest.mark.parametrize(
    ("line", "environ", "said"),
    [
        ("--cpu --num_processes 2 x.py", EMPTY, "--num_processes 2"),
        ("--num_machines 2 --machine_rank 1 x.py", EMPTY, "--num_machines 2"),
        ("--enable_cpu_affinity --num_processes 2 x.py", EMPTY, "--num_processes 2"),
        ("--same_network --num_machines 2 x.py", EMPTY, "--num_machines 2"),
        ("--cpu --num_processes 4 --num_machines 2 x.py", EMPTY, "--num_processes 4"),
        ("--config_file cpu.yaml x.py", EMPTY, "--num_processes 2, with cpu.yaml"),
        ("--config-file=cpu.json x.py", EMPTY, "--num_processes 2, with cpu.json"),
        ("--config_file no.yaml x.py", EMPTY, "--num_processes 2, with no.yaml"),
        ("--config_file one.yaml --num_processes 3 x.py", EMPTY, "--num_processes 3, with one.yaml"),
        ("x.py", OWN, "--num_processes 2, with /hf/accelerate/default_config.yaml"),
        ("--num_processes 3 x.py", OWN, "--num_processes 3, with /hf/accelerate/default_config.yaml"),
        ("--cpu x.py", OWN, None),
        ("--num_processes 1 x.py", OWN, None),
        ("x.py", EMPTY, None),
        ("--config_file one.yaml x.py", EMPTY, None),
        ("--config_file mpi.yaml x.py", EMPTY, None),
        ("--config_file gpu.yaml x.py", EMPTY, None),
        ("--config_file missing.yaml --num_processes 2 x.py", EMPTY, None),  # accelerate says so itself
        ("--config_file cpu.yaml --mpirun_hostfile /hosts x.py", EMPTY, None),
        ("--multi_gpu --num_processes 2 x.py", EMPTY, None),
    ],
)
def test_ranks_that_would_train_alone_are_refused(line: str, environ: dict[str, str], said: str | None) -> None:
    asked = read_asked(line.split(), environ, FILES.get)
    if said is None:
        return check_asked(asked)
    with pytest.raises(Refusal, match="starts one process on a CPU") as caught:
        check_asked(asked)
    assert (caught.value.value, caught.value.code) == (said, 2)
    assert caught.value.remedy.startswith("torchrun ")


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("--cpu --num_processes 2 x.py", "torchrun --nproc_per_node 2 SCRIPT.py"),
        (
            "--num_processes 4 --num_machines 2 x.py",
            "torchrun --nnodes 2 --node_rank R --master_addr HOST --nproc_per_node 2 SCRIPT.py",
        ),
        (
            "--num_machines 3 x.py",
            "torchrun --nnodes 3 --node_rank R --master_addr HOST --nproc_per_node 1 SCRIPT.py",
        ),
    ],
)
def test_the_remedy_is_a_torchrun_of_the_same_size(line: str, remedy: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_asked(read_asked(line.split(), EMPTY, FILES.get))
    assert caught.value.remedy == remedy


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("--cpu x.py", 1),
        ("--multi_gpu --num_processes 4 --num_machines 2 x.py", 2),
        ("--config_file gpu.yaml x.py", None),
        ("--multi_gpu x.py", None),
    ],
)
def test_the_processes_of_one_machine_are_counted(line: str, count: int | None) -> None:
    assert count_processes(read_asked(line.split(), EMPTY, FILES.get)) == count


def test_where_the_default_is() -> None:
    assert find_default({"HOME": "/h"}) == "/h/.cache/huggingface/accelerate/default_config.yaml"
    assert find_default({"HOME": "/h", "XDG_CACHE_HOME": "/x"}) == "/x/huggingface/accelerate/default_config.yaml"


@given(st.text())
def test_any_file_is_a_configuration(text: str) -> None:
    assert all(name is not None and value for name, value in read_configuration(text).items())
    check_asked(read_asked(["--config_file", "f", "--num_processes", "1"], {}, lambda path: "mpirun_hostfile: x"))


def test_a_pipe_is_no_configuration(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    assert read_asked(["--config_file", str(tmp_path / "pipe")], {}, read_file).file == ""
