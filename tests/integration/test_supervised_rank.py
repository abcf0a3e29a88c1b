"""A rank that `launch` started: its failure is said, and hydra is told to end the job."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.harness import ROOT

SUPERVISE = """
import os, sys
from multinode_image.mpi.rank import supervise
sys.exit(supervise(["sh", "-c", sys.argv[1]], {**os.environ, "MULTINODE_SUPERVISED": "1"}, 3))
"""


def supervise(script: str, *, stop: bool = False) -> tuple[int, str, bytes]:
    """Run a shell as rank 3, below a stand-in for hydra; return the exit code, its stderr, and what hydra was told."""
    told, end = os.pipe()
    argv = [sys.executable, "-c", SUPERVISE, script]
    environ = {**os.environ, "PMI_RANK": "3", "PMI_FD": str(end)}
    rank = subprocess.Popen(argv, cwd=ROOT, env=environ, pass_fds=[end], stderr=subprocess.PIPE, text=True)
    os.close(end)
    if stop:
        assert rank.stderr and rank.stderr.readline() == "ready\n"
        rank.terminate()
    _, err = rank.communicate(timeout=30)
    return rank.returncode, err, take(told)


def take(end: int) -> bytes:
    """Return what was written into a pipe, and close it."""
    said = os.read(end, 1000)
    os.close(end)
    return said


@pytest.mark.parametrize(
    ("script", "code", "how", "told"),
    [
        ("exit 0", 0, "", b""),
        ("exit 7", 7, "ended with exit code 7", b"cmd=abort exitcode=7\n"),
        ("exit 255", 255, "ended with exit code 255", b"cmd=abort exitcode=1\n"),  # hydra's for a node that is lost
        ("kill -9 $$", 137, "was killed by signal 9", b"cmd=abort exitcode=137\n"),
        ('test -z "$MULTINODE_SUPERVISED"', 0, "", b""),  # what the rank starts is not supervised
    ],
)
def test_a_rank_that_fails_is_named_and_ends_the_job(script: str, code: int, how: str, told: bytes) -> None:
    ended, err, said = supervise(script)
    assert (ended, said) == (code, told)
    assert ("multinode: rank 3 on" in err and f"{how}; the job is ended" in err) == bool(code)


def test_a_rank_that_is_stopped_says_nothing() -> None:
    code, err, told = supervise("echo ready >&2; exec sleep 30", stop=True)
    assert (code, err, told) == (143, "", b"cmd=abort exitcode=143\n")
