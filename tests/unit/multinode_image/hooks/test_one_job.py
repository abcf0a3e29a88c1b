"""Which process trains apart from its job, and ranks that meet those of another one; torch is made up."""

from __future__ import annotations

import io
import os
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image import settings
from multinode_image.hooks.groups.same_job import KEY, WORDS, compare, watch_agents, watch_rendezvous
from multinode_image.hooks.job import one_job
from multinode_image.hooks.job.one_job import (
    ACCELERATE,
    DISTRIBUTED,
    Fault,
    choose_remedy,
    count_meant,
    find_fault,
    leave,
)
from multinode_image.hooks.job.place import AGENT
from multinode_image.settings import APART, SIZE

RANK = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2"}


def group(ranks: int) -> dict[str, Any]:
    """Make up torch's module with a group of so many ranks; 0 for none."""
    module = SimpleNamespace(is_initialized=lambda: ranks > 0, get_world_size=lambda: ranks)
    return {"torch": SimpleNamespace(), DISTRIBUTED: module}


def accelerate(processes: int) -> dict[str, Any]:
    return {ACCELERATE: SimpleNamespace(PartialState=SimpleNamespace(_shared_state={"num_processes": processes}))}


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
    ("modules", "environ", "value", "remedy"),
    [
        pytest.param(group(0), RANK, "rank 1, in no process group", "init_process_group", id="no group"),
        pytest.param({}, RANK, "rank 1, in no process group", "init_process_group", id="no torch.distributed"),
        pytest.param(group(1), RANK, "rank 1, in a group of 1", "init_process_group", id="each a group"),
        pytest.param(group(2), {**RANK, "WORLD_SIZE": "4"}, "rank 1, in a group of 2", "init_process", id="each node"),
        pytest.param({"pytorch_lightning": 1}, RANK, "rank 1", 'Trainer(accelerator="cpu"', id="pl"),
        pytest.param({"lightning.pytorch": 1, "lightning.fabric": 1}, RANK, "rank 1", "Trainer(", id="lightning"),
        pytest.param({"lightning.fabric": 1}, RANK, "rank 1", 'Fabric(accelerator="cpu"', id="fabric"),
        pytest.param({**group(2), **accelerate(1)}, RANK, "rank 1, in a group of 1", "ACCELERATE_USE_CPU", id="accel"),
        pytest.param({**group(0), **accelerate(1)}, {SIZE: "2"}, "no rank", "multinode SCRIPT.py", id="no rank"),
    ],
)
def test_a_process_apart_is_told_what_its_library_needs(
    modules: dict[str, Any], environ: dict[str, str], value: str, remedy: str
) -> None:
    fault = find_fault(modules, environ)

    assert fault is not None and fault.value.startswith(value) and remedy in fault.remedy
    assert f"one of {count_meant(environ)}" in fault.fact and f"{APART}=1" in fault.remedy


@pytest.mark.parametrize(
    ("modules", "environ"),
    [
        pytest.param(group(2), RANK, id="one job"),
        pytest.param({**group(2), **accelerate(2)}, RANK, id="one job of accelerate"),
        pytest.param(group(2), {SIZE: "2"}, id="a script that has found its place itself"),
        pytest.param({**group(0), **accelerate(1)}, {}, id="alone"),
        pytest.param({}, {**RANK, APART: "1"}, id="apart on purpose"),
    ],
)
def test_a_process_of_its_job_has_no_fault(modules: dict[str, Any], environ: dict[str, str]) -> None:
    assert find_fault(modules, environ) is None


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
    ("optimizer", "remedy"), [("keras.SGD", "model.fit"), ("thinc.softmax", "one node"), ("SGD", "gloo")]
)
def test_the_library_of_an_optimizer_has_a_remedy_of_its_own(optimizer: str, remedy: str) -> None:
    assert remedy in choose_remedy({"torch": 1}, optimizer)


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


ALPHA, BETA, COPY = (
    "11111111 train.py --corpus alpha",
    "22222222 train.py --corpus beta",
    "33333333 train.py --corpus beta",
)


class Store:
    def __init__(self, there: str = "") -> None:
        self.values = {KEY: there} if there else {}

    def set(self, name: str, text: str) -> None:
        self.values[name] = text

    def wait(self, names: list[str], _: object) -> None:
        if names[0] not in self.values:
            raise RuntimeError("wait timeout after 30000ms")

    def get(self, name: str) -> bytes:
        return self.values[name].encode()


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_job, "TOLD", [])


@pytest.mark.parametrize(
    ("there", "mine", "ends"),
    [
        pytest.param(ALPHA, BETA, True, id="other words"),
        pytest.param(COPY, BETA, True, id="another file of that name"),
        pytest.param(BETA, BETA, False, id="one job"),
        pytest.param("", BETA, False, id="node 0 says nothing"),
        pytest.param(ALPHA, "", False, id="nobody knows what this is"),
    ],
)
def test_a_node_of_another_job_ends(there: str, mine: str, ends: bool) -> None:
    fault = compare(Store(there), 1, 2, {WORDS: mine, "PET_NNODES": "2"})

    assert (fault is not None) == ends
    assert fault is None or "another PET_MASTER_PORT" in fault.remedy
    assert fault is None or ("a file of that name differs" in fault.value) == (there == COPY)


def test_rank_0_says_what_it_was_asked_for_and_one_alone_nothing() -> None:
    store, alone = Store(), Store()
    compare(store, 0, 2, {WORDS: ALPHA})
    compare(alone, 0, 1, {WORDS: ALPHA})

    assert (store.values, alone.values) == ({KEY: ALPHA}, {})


@pytest.mark.parametrize("is_tuple", [False, True], ids=["a value", "a tuple of older releases"])
def test_an_agent_compares_before_it_counts_as_one_that_has_come(
    is_tuple: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WORDS, BETA)
    store, counted = Store(ALPHA), list[str]()

    class Agent:
        def _rendezvous(self, group: Any) -> None:
            group.spec.rdzv_handler.next_rendezvous()
            counted.append("come")

    met: Any = (store, 1, 2) if is_tuple else SimpleNamespace(store=store, rank=1, world_size=2)
    handler = SimpleNamespace(next_rendezvous=lambda: met)
    watch_agents(SimpleNamespace(SimpleElasticAgent=Agent))
    agent: Any = Agent()

    shown, said = io.BytesIO(), list[bytes]()

    def end(code: int) -> None:  # what is not written by then is lost
        said.append(shown.getvalue())
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(shown))
    with pytest.raises(SystemExit):
        agent._rendezvous(SimpleNamespace(spec=SimpleNamespace(rdzv_handler=handler)))
    assert counted == [] and handler.next_rendezvous() is met, "the handler is as it was"
    assert b"was asked to train something else" in said[0]


@pytest.mark.parametrize(("agent", "ends"), [("", True), ("True", False)])
def test_ranks_compare_where_no_agent_has(agent: str, ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORDS, BETA)
    monkeypatch.setenv(AGENT, agent)
    store = Store(ALPHA)
    module = SimpleNamespace(rendezvous=lambda url: iter([(store, 1, 2)]))
    watch_rendezvous(module)

    if ends:
        with pytest.raises(SystemExit):
            next(module.rendezvous("env://"))
    else:
        assert next(module.rendezvous("env://")) == (store, 1, 2)
