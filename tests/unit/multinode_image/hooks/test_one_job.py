"""How many processes were meant to train together, and how one ends that trains apart from its job."""

from __future__ import annotations

import threading

import pytest

from multinode_image import settings
from multinode_image.hooks.job import one_job
from multinode_image.hooks.job.one_job import Fault, count_meant, find_fault, is_first, leave
from multinode_image.settings import APART, SIZE

RANK = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2"}


def test_variables_have_the_names_that_the_entrypoint_knows() -> None:
    assert {name.removeprefix(settings.OURS) for name in (SIZE, APART)} <= {*settings.NAMES}


@pytest.mark.parametrize(
    ("environ", "meant"),
    [
        ({}, 1),
        (RANK, 2),
        ({"RANK": "0", "WORLD_SIZE": "4", SIZE: "2:"}, 4),
        # a rank that is alone, where nodes come and go; and a process beside it that is none
        ({"RANK": "0", "WORLD_SIZE": "1", SIZE: "1:4"}, 1),
        ({SIZE: "1:4"}, 2),
        ({SIZE: "1:"}, 2),
        ({SIZE: "1:1"}, 1),
        ({SIZE: " 2 "}, 2),
        ({SIZE: "4:2"}, 1),  # a start refuses what is no range
        ({SIZE: "1:1", "WORLD_SIZE": "4"}, 1),
        # mpirun that was typed
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 2),
        # a torchrun on each node of mpirun, one of which is gone
        ({"RANK": "0", "WORLD_SIZE": "3", "PMI_SIZE": "4", SIZE: "2:4", one_job.ELASTIC: "job"}, 3),
        ({"RANK": "0", "WORLD_SIZE": "1", "PMI_SIZE": "4"}, 4),
        # no rank: nodes of a rendezvous, and pods
        ({SIZE: "2"}, 2),
        ({SIZE: "4:8"}, 4),
        ({SIZE: "2", "RANK": "1", "WORLD_SIZE": "1"}, 2),
        # one process is right, whatever a scheduler has left
        ({SIZE: "1", "WORLD_SIZE": "4"}, 1),
        ({**RANK, APART: "1"}, 1),
        ({**RANK, APART: "0"}, 2),
        ({**RANK, APART: ""}, 2),
        ({"RANK": "0", "WORLD_SIZE": "two"}, 1),
    ],
)
def test_how_many_were_meant(environ: dict[str, str], meant: int) -> None:
    assert count_meant(environ) == meant


@pytest.mark.parametrize(
    ("environ", "first"),
    [({}, True), ({"RANK": "0"}, True), ({"RANK": "1", "PMI_RANK": "0"}, False), ({"PMI_RANK": "3"}, False)],
)
def test_a_line_is_said_by_the_first_of_a_job(environ: dict[str, str], first: bool) -> None:
    assert is_first(environ) is first


@pytest.mark.parametrize(
    ("library", "remedy"),
    [
        ("", "init_process_group"),
        ("pytorch_lightning", 'Trainer(accelerator="cpu"'),
        ("lightning.pytorch", "Trainer("),
        ("lightning.fabric", 'Fabric(accelerator="cpu"'),
    ],
)
def test_a_process_without_a_group_is_told_what_its_library_needs(library: str, remedy: str) -> None:
    fault = find_fault({library: 1, "lightning.fabric": 1} if library else {}, RANK)

    assert fault is not None and fault.value == "rank 1, in no process group" and remedy in fault.remedy
    assert "one of 2" in fault.fact and f"{APART}=1" in fault.remedy


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note with what a process would have ended."""
    monkeypatch.setattr(one_job, "TOLD", [])
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)
    return codes


def test_a_process_ends_once_by_an_exception_and_then_at_once(
    ends: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    fault = Fault("this process trains by itself", "rank 1", "a group")

    with pytest.raises(SystemExit) as ended:
        leave(fault)
    assert (ended.value.code, ends) == (2, [])
    leave(fault)  # somebody has caught it

    assert ends == [2]
    assert capsys.readouterr().err.count("multinode: this process trains by itself") == 1


def test_a_thread_ends_its_process(ends: list[int]) -> None:
    thread = threading.Thread(target=leave, args=[Fault("", "", "")])
    thread.start()
    thread.join(10)

    assert ends == [2]


@pytest.mark.parametrize(
    ("nodes", "environ", "ends"),
    [
        (1, {"PMI_SIZE": "2"}, True),
        (1, {"OMPI_COMM_WORLD_SIZE": "4"}, True),
        (1, {"MV2_COMM_WORLD_SIZE": "2", APART: "0"}, True),
        (2, {"PMI_SIZE": "2"}, False),
        (4, {"PMI_SIZE": "4"}, False),
        (1, {"PMI_SIZE": "1"}, False),
        (1, {"WORLD_SIZE": "2"}, False),  # what an operator has set in its pod
        (1, {"PMI_SIZE": "2", APART: "1"}, False),
        (1, {"PMI_SIZE": "2", one_job.MEMBER: "7"}, False),  # a rank of its job starts something of its own
        # a shell on each of several nodes
        (1, {"PET_NNODES": "2"}, True),
        (1, {"PET_NNODES": "2:4"}, True),
        (2, {"PET_NNODES": "2"}, False),
        (2, {"PET_NNODES": "2"}, False),
        (1, {"PET_NNODES": "1"}, False),
        (1, {"PET_NNODES": "2", APART: "1"}, False),
    ],
)
def test_an_agent_for_one_node_is_wrong_in_each_of_several_processes(
    nodes: int, environ: dict[str, str], ends: bool
) -> None:
    fault = one_job.find_agent_fault(nodes, environ)
    assert (fault is not None) is ends
    assert fault is None or "a model of its own" in fault.fact
