"""A rank that `launch` started: hydra is told to end the job where it was refused, and it takes its cores."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

import pytest

from multinode_image.errors import LATER
from multinode_image.machine.cpus import Machine
from multinode_image.mpi import rank as module
from multinode_image.mpi.rank import SUPERVISED, end_job, report_refused, take_cores
from multinode_image.reading import write_cpus
from tests.support.machines import Box, look_at, pod
from tests.support.starts import make_facts


def take(end: int) -> bytes:
    """Return what was written into a pipe, and close it."""
    said = os.read(end, 1000)
    os.close(end)
    return said


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return what is waited for in place of waiting, ten seconds after the start of this process."""
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr("time.monotonic", lambda: module.BEGAN + 10.0)
    return waits


@pytest.mark.parametrize(("age", "wait"), [(0.25, 0.75), (1.0, 0.0), (900.0, 0.0)])
def test_a_rank_that_fails_early_waits_until_all_nodes_have_started_theirs(
    age: float, wait: float, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: module.BEGAN + age)
    end_job({}, 7)
    assert waits == [pytest.approx(wait)]


@pytest.mark.parametrize(
    ("rank", "told"), [("1", b"cmd=abort exitcode=2\n"), ("", b""), ("one", b"")]
)  # what hydra starts to reach a host has no rank
def test_only_who_has_a_rank_ends_the_job_where_it_was_refused(rank: str, told: bytes) -> None:
    read, write = os.pipe()
    report_refused({"PMI_RANK": rank, "PMI_SIZE": "x", "PMI_FD": str(write)}, 2)
    os.close(write)
    assert take(read) == told


@pytest.mark.parametrize(
    ("code", "how"),
    [(1, "ended with exit code 1"), (137, "was killed by signal 9"), (LATER, f"ended with exit code {LATER}")],
)
def test_how_a_rank_has_failed_is_said(code: int, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    module.print_failure(3, code)
    assert capsys.readouterr().err == f"multinode: rank 3 on {socket.gethostname()} {how}; the job is ended\n"


@pytest.mark.parametrize("code", [0, 7])
@pytest.mark.parametrize("stopped", [True, False])
def test_a_rank_that_fails_says_so_and_ends_its_job(code: int, stopped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[object]()

    def run(argv: list[str], environ: dict[str, str], caught: object, pass_on: Callable[[int], bool]) -> int:
        done.append((argv, environ, caught))
        return code if not stopped or pass_on(4) is False else -1

    monkeypatch.setattr(module, "end_with_parent", lambda: done.append("with its parent"))
    monkeypatch.setattr(module, "run_child", run)
    monkeypatch.setattr(module, "print_kill", lambda *given: done.append(given[:2]))
    monkeypatch.setattr(module, "print_failure", lambda *given: done.append(given))
    monkeypatch.setattr(module, "end_job", lambda _, code: done.append(code))
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    assert module.supervise(["x"], {SUPERVISED: "1", "A": "1"}, 3) == code

    said = [] if stopped else [(code, f"rank 3 on {socket.gethostname()}"), (3, code)]
    ends = [*said, code] if code else []
    assert done == ["with its parent", (["x"], {"A": "1"}, signals), *ends]


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
    share = take_cores(make_facts(environ, machine=machine)).machine
    assert masks == [taken] * bool(taken)
    assert share.pinned == (bool(taken) or machine.pinned)
