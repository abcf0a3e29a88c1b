"""A rank that `launch` started: its failure is said, and hydra is told to end the job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from entrypoint.machine.cpus import Machine
from entrypoint.mpi import rank as module
from entrypoint.mpi.rank import SUPERVISED, report_refused, take_cores
from entrypoint.numbers import write_cpus
from tests.support.machines import Box, look_at, pod
from tests.support.starts import make_facts

ROOT = Path(__file__).parents[4]
SUPERVISE = """
import os, sys
from entrypoint.mpi.rank import supervise
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
    found, err, said = supervise(script)
    assert (found, said) == (code, told)
    assert ("multinode: rank 3 on" in err and f"{how}; the job is ended" in err) == bool(code)


def test_a_rank_that_is_stopped_says_nothing() -> None:
    code, err, told = supervise("echo ready >&2; exec sleep 30", stop=True)
    assert (code, err, told) == (143, "", b"cmd=abort exitcode=143\n")


@pytest.mark.parametrize(
    ("rank", "told"), [("1", b"cmd=abort exitcode=2\n"), ("", b""), ("one", b"")]
)  # what hydra starts to reach a host has no rank
def test_only_who_has_a_rank_ends_the_job_where_it_was_refused(rank: str, told: bytes) -> None:
    read, write = os.pipe()
    report_refused({"PMI_RANK": rank, "PMI_SIZE": "x", "PMI_FD": str(write)}, 2)
    os.close(write)
    assert take(read) == told


@pytest.mark.parametrize("number", ["", "x", "99999"])
def test_a_hydra_that_does_not_listen_is_no_error(number: str) -> None:
    report_refused({"PMI_RANK": "1", "PMI_FD": number}, 2)


TWO, SECOND = Box(2, 28, 2), {SUPERVISED: "1", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1"}


@pytest.mark.parametrize(
    ("machine", "environ", "taken"),
    [
        (look_at(TWO, parent="0-111"), SECOND, "28-55,84-111"),
        (look_at(TWO, parent="0-111"), {**SECOND, SUPERVISED: ""}, ""),  # mpirun's own
        (look_at(TWO, parent="0-111"), {**SECOND, "MPI_LOCALNRANKS": "1", "MPI_LOCALRANKID": "0"}, ""),
        (look_at(TWO, parent="0-111"), {**SECOND, "MPI_LOCALRANKID": "2"}, ""),
        (look_at(TWO, cpus="0-27", parent="0-111"), SECOND, ""),  # the user has bound it
        (look_at(TWO, pod(8), parent="0-111"), SECOND, ""),
        (look_at(Box(1, 1)), SECOND, ""),
    ],
)
def test_a_rank_takes_its_share_of_the_node(
    machine: Machine, environ: dict[str, str], taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks: list[str] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: masks.append(write_cpus(cpus)))
    monkeypatch.setattr(module, "read_this_machine", lambda _: look_at(TWO, cpus=masks[-1], parent="0-111"))
    found = take_cores(make_facts(environ, machine=machine)).machine
    assert masks == [taken] * bool(taken)
    assert found.pinned == (bool(taken) or machine.pinned)
