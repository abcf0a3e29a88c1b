"""A file for each rank: what it says is kept, and that of the first of a node is shown as well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.harness import ROOT

RANK = """
import os, sys
from multinode_image.logs import run_logged
from multinode_image.world.table import detect
sys.exit(run_logged(["sh", "-c", sys.argv[1]], os.environ, detect(os.environ)))
"""
PLACE = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def start(script: str, logs: Path, *, rank: int, program: str = RANK) -> subprocess.Popen[str]:
    """Start a shell as a rank of the second node of two, as torchrun does."""
    numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank - 2), "GROUP_RANK": "1", "TORCHELASTIC_RUN_ID": "x"}
    environ = {**os.environ, **PLACE, **numbers, "MULTINODE_LOGS": str(logs)}
    argv = [sys.executable, "-c", program, script]
    piped = subprocess.PIPE
    return subprocess.Popen(argv, cwd=ROOT, env=environ, stdout=piped, stderr=piped, text=True, start_new_session=True)


def finish(script: str, logs: Path, *, rank: int) -> tuple[int, str, str]:
    """Return its exit code, or minus the signal that has ended it, and what it has shown."""
    started = start(script, logs, rank=rank)
    out, err = started.communicate(timeout=30)
    return started.returncode, out, err


SAYS = "echo one; echo two >&2; "


@pytest.mark.parametrize(("ends", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9), ("kill -TERM $$", -15)])
@pytest.mark.parametrize("rank", [2, 3])
def test_a_rank_has_a_file_and_ends_as_ever(tmp_path: Path, ends: str, code: int, rank: int) -> None:
    done = finish(SAYS + ends, tmp_path / "new/logs", rank=rank)

    assert done == ((code, "one\n", "two\n") if rank == 2 else (code, "", ""))
    assert sorted((tmp_path / f"new/logs/rank-{rank}.log").read_text().split()) == ["one", "two"]
    assert [path.name for path in (tmp_path / "new/logs").iterdir()] == [f"rank-{rank}.log"]


def test_a_rank_that_is_started_again_adds_to_its_file(tmp_path: Path) -> None:
    for rank in (2, 2, 3, 3):
        finish("echo $RANK", tmp_path, rank=rank)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "rank-2.log": "2\n2\n",
        "rank-3.log": "3\n3\n",
    }


@pytest.mark.parametrize("rank", [2, 3])
def test_what_a_rank_says_after_a_signal_to_its_group_is_kept(tmp_path: Path, rank: int) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while true; do sleep 0.1; done"
    started, log = start(script, tmp_path, rank=rank), tmp_path / f"rank-{rank}.log"
    if rank == 2:
        assert started.stdout and started.stdout.readline() == "ready\n"
    while not (log.exists() and log.read_text()):
        assert started.poll() is None

    os.killpg(started.pid, signal.SIGTERM)
    out, _ = started.communicate(timeout=30)

    assert started.returncode == 0 and {"ready", "saved"} <= {*log.read_text().split()}
    assert {*out.split()} == ({"saved"} if rank == 2 else set())  # twice where both hear of it, the rank and its parent


def test_a_process_that_outlives_its_rank_is_not_waited_for(tmp_path: Path) -> None:
    program = f"from multinode_image import logs\nlogs.DRAIN = 0.5\n{RANK}"
    started = start("sleep 8 & echo one", tmp_path, rank=2, program=program)

    assert started.wait(6) == 0 and (tmp_path / "rank-2.log").read_text() == "one\n"
    started.communicate(timeout=30)
