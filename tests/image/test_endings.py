"""Good work ends well, time after time, while other work wants the same cores.

MULTINODE_TEST_TIMES=50 pytest -m slow tests/image/test_endings.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.containers import detached
from tests.support.harness import ENTRYPOINT, Done, call, run

TIMES = int(os.environ.get("MULTINODE_TEST_TIMES", "2"))
BUSY = "while :; do :; done & while :; do :; done & wait"
SMOKE = ("smoke", "--max_steps", "40")
# As a rank of oneCCL over MPI: it says hello to MPI, and ends without MPI_Finalize.
UNFINISHED = """
import ctypes, os, time
ctypes.CDLL("libmpi.so.12").MPI_Init(None, None)
time.sleep(2 * int(os.environ["RANK"]))
os.write(1, b"good work done by %d\\n" % int(os.environ["RANK"]))
os._exit(0)
"""


# What happens to a rank whose backend's thread had no core for a while, at its worst: the thread wants Python's lock to
# drop a tensor, and gets it no more. It is the first handler of the script, so the last that is called, because any
# output after it would set the lock free.
RETURNS = """
import atexit, os, sys, time
def work_at_the_end():
    os.write(1, b"good work done\\n")
    sys.setswitchinterval(1000)
    dist.all_reduce(torch.ones(300000), async_op=True)
    dist.all_reduce(tensor, async_op=True)
    until = time.perf_counter() + 1
    while time.perf_counter() < until:
        pass
atexit.register(work_at_the_end)
import torch, torch.distributed as dist
tensor = torch.ones(300000)
dist.init_process_group("gloo")
"""
PLAIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(3):
    dist.all_reduce(torch.ones(1000))
"""
TORCHRUN = "torchrun --nproc-per-node 2"
MPIRUN = "MASTER_ADDR=127.0.0.1 mpirun -n 2 multinode python3"


@pytest.fixture(scope="module")
def busy(image: str) -> Iterator[str]:
    """Keep two cores busy in a container; whatever runs beside it is gone with it."""
    words = ("--cpuset-cpus", "0,1", "--entrypoint", "tini", image, "--", "bash", "-c", BUSY)
    with detached(*words) as container:
        yield container.name


def end(image: str, place: Path, script: str, command: str) -> Done:
    """Run a command of a shell with a script, past the entrypoint, as a pod's `command` does."""
    (place / "script.py").write_text(script)
    options = ("--volume", f"{place}:/script:ro", "--entrypoint", "tini")
    return run(image, "--", "bash", "-c", f"{command} /script/script.py", options=options)


@pytest.mark.parametrize(
    "command", [TORCHRUN, pytest.param(MPIRUN, marks=pytest.mark.slow)], ids=["torchrun", "mpirun"]
)
def test_a_script_may_return_without_destroying_its_group(image: str, module_path: Path, command: str) -> None:
    done = end(image, module_path, RETURNS, command)

    assert done.code == 0
    assert done.out.count("good work done") == 2
    assert "Exception ignored" not in done.err
    assert done.err.count("multinode: worked as a group of 2 ranks") == 1


def test_ranks_that_form_no_group_are_said_to_work_apart(image: str, module_path: Path) -> None:
    done = end(image, module_path, "import torch, torch.distributed", TORCHRUN)

    assert done.code == 0
    assert done.err.count("multinode: each of the 2 ranks has worked by itself, not as one job\n") == 1


def test_nccl_is_told_what_to_take_here(image: str, module_path: Path) -> None:
    script = "import torch.distributed as dist; dist.init_process_group('nccl')"

    done = end(image, module_path, script, TORCHRUN)

    assert done.code == 1
    assert "multinode: this image trains on CPUs, and has no such backend: NCCL" in done.err


@pytest.mark.slow
def test_scripts_return_time_after_time_on_busy_cores(busy: str) -> None:
    """Before Python's exit was mended, one rank in thirty aborted."""
    start = ["docker", "exec", busy, "bash", "-c", f"echo '{PLAIN}' > /tmp/plain.py && {TORCHRUN} /tmp/plain.py"]

    assert [call(start, seconds=60).code for _ in range(4 * TIMES)] == [0] * 4 * TIMES


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("--nproc", "2", *SMOKE), id="torchrun"),
        pytest.param(("mpirun", "-n", "2", "multinode", *SMOKE), id="mpirun"),
    ],
)
def test_two_ranks_end_cleanly_on_busy_cores(busy: str, command: tuple[str, ...]) -> None:
    done = [call(["docker", "exec", busy, *ENTRYPOINT, *command], seconds=180) for _ in range(TIMES)]

    assert [end.code for end in done] == [0] * TIMES
    assert [len(re.findall(r"(?m)^smoke: passed: world_size=2 ", end.out)) for end in done] == [1] * TIMES


def test_launch_lets_ranks_end_one_after_the_other(image: str) -> None:
    options = ["--env", "I_MPI_FABRICS=shm", "--env", "LD_LIBRARY_PATH=/usr/local/lib"]

    done = run(image, "launch", "--hosts", "localhost", "-n", "2", "python3", "-c", UNFINISHED, options=options)

    assert done.code == 0
    assert sorted(done.out.split("\n")) == ["", "good work done by 0", "good work done by 1"]
