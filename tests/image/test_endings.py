"""Good work ends well, time after time, while other work wants the same cores.

MULTINODE_TEST_TIMES=50 pytest -m slow tests/image/test_endings.py
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator

import pytest

from tests.support.harness import ENTRYPOINT, call, run

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


@pytest.fixture(scope="module")
def busy(bare_image: str) -> Iterator[str]:
    """Keep two cores busy in a container; whatever runs beside it is gone with it."""
    name = f"multinode-test-{uuid.uuid4().hex[:12]}"
    start = ["docker", "run", "--detach", "--name", name, "--network", "none", "--cpuset-cpus", "0,1"]
    assert call([*start, "--entrypoint", "tini", bare_image, "--", "bash", "-c", BUSY]).code == 0
    yield name
    call(["docker", "rm", "--force", name])


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

    assert [each.code for each in done] == [0] * TIMES
    assert [len(re.findall(r"(?m)^smoke: passed: world_size=2 ", each.out)) for each in done] == [1] * TIMES


def test_launch_lets_ranks_end_one_after_the_other(bare_image: str) -> None:
    options = ["--env", "I_MPI_FABRICS=shm", "--env", "LD_LIBRARY_PATH=/usr/local/lib"]

    done = run(bare_image, "launch", "--hosts", "localhost", "-n", "2", "python3", "-c", UNFINISHED, options=options)

    assert done.code == 0
    assert sorted(done.out.split("\n")) == ["", "good work done by 0", "good work done by 1"]
