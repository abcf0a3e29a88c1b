"""Which process trains apart from its job, what it is told, and how it ends; torch and its libraries are made up."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from entrypoint import settings
from entrypoint.hooks import one_job
from entrypoint.hooks.one_job import ACCELERATE, APART, DISTRIBUTED, SIZE, count_meant, find_fault
from entrypoint.world import size
from entrypoint.world.table import MPIS

RANK = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2"}


def group(ranks: int) -> dict[str, Any]:
    """Make up torch's module with a group of so many ranks; 0 for none."""
    module = SimpleNamespace(is_initialized=lambda: ranks > 0, get_world_size=lambda: ranks)
    return {"torch": SimpleNamespace(), DISTRIBUTED: module}


def accelerate(processes: int) -> dict[str, Any]:
    return {ACCELERATE: SimpleNamespace(PartialState=SimpleNamespace(_shared_state={"num_processes": processes}))}


def test_variables_have_the_names_that_the_entrypoint_knows() -> None:
    assert size.SIZE == SIZE and APART.removeprefix(settings.OURS) in settings.NAMES
    assert {"WORLD_SIZE", *(launcher.size for launcher in MPIS)} == {*one_job.SIZES}


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


class New:
    """torch.optim.optimizer with hooks for all optimizers."""

    torch = SimpleNamespace()

    def __init__(self) -> None:
        self.hooks: OrderedDict[int, Callable[..., None]] = OrderedDict()
        module = self

        class Optimizer:
            def step(self) -> int:
                for hook in module.hooks.values():
                    hook(self, (), {})
                return 1

        self.Optimizer = Optimizer

    def register_optimizer_step_pre_hook(self, hook: Callable[..., None]) -> None:
        self.hooks[len(self.hooks)] = hook


class Old:
    """That of torch 1.10: each class is changed when its first optimizer is made."""

    def __init__(self) -> None:
        class Base:
            def __init__(self) -> None:
                self._hook_for_profile()

            def _hook_for_profile(self) -> None:
                if not getattr(type(self).step, "hooked", False):
                    step = type(self).step
                    type(self).step = lambda optimizer: step(optimizer)  # type: ignore[assignment,method-assign]
                    type(self).step.hooked = True  # type: ignore[attr-defined]

            def step(self) -> int:
                return 1

        class Optimizer(Base):
            def step(self) -> int:
                return 1

        self.Optimizer, self.Adam = Base, Optimizer


@pytest.fixture(params=[New, Old])
def optimizer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Make an optimizer, as torch has it in its releases, that is watched."""
    monkeypatch.setattr(one_job, "JOINED", [])
    monkeypatch.setattr(one_job, "TOLD", [])
    module = request.param()
    one_job.watch_optimizers(module)
    yield getattr(module, "Adam", module.Optimizer)()


def test_the_profiler_of_an_old_torch_has_its_own_change_of_a_step() -> None:
    module = Old()
    one_job.watch_optimizers(module)

    kind = type(module.Adam())

    assert kind.step.hooked and kind.step.checks_job  # type: ignore[attr-defined]


def set_world(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], modules: dict[str, Any]) -> None:
    for name in (SIZE, APART, "RANK", one_job.MEMBER, *one_job.SIZES):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "modules", {**sys.modules, **modules})


def test_a_process_apart_ends_at_its_first_step(
    optimizer: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends: list[int] = []
    monkeypatch.setattr("os._exit", ends.append)
    set_world(monkeypatch, RANK, group(0))

    with pytest.raises(SystemExit) as ended:
        optimizer.step()
    assert (ended.value.code, ends) == (2, [])
    optimizer.step()  # somebody has caught it

    assert ends == [2]
    assert capsys.readouterr().err.count("multinode: this process trains by itself") == 1


def test_a_thread_ends_its_process(optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    monkeypatch.setattr("os._exit", ends.append)
    set_world(monkeypatch, RANK, group(0))

    thread = threading.Thread(target=optimizer.step)
    thread.start()
    thread.join(10)

    assert ends == [2]


def test_nothing_is_looked_at_after_the_first_step(optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    set_world(monkeypatch, RANK, group(2))
    assert optimizer.step() == 1
    set_world(monkeypatch, RANK, group(0))

    assert optimizer.step() == 1 and type(optimizer)().step() == 1


@pytest.mark.parametrize("of_child", [True, False])
def test_what_a_rank_of_its_job_starts_may_train_something_of_its_own(
    optimizer: Any, monkeypatch: pytest.MonkeyPatch, of_child: bool
) -> None:
    set_world(monkeypatch, RANK, group(2))
    optimizer.step()
    member = os.environ[one_job.MEMBER]
    monkeypatch.setattr(one_job, "JOINED", [])
    monkeypatch.setattr("os.getpid", lambda: int(member) + of_child)
    monkeypatch.setattr(sys, "modules", {**sys.modules, **group(0)})

    if of_child:
        assert optimizer.step() == 1
        return
    with pytest.raises(SystemExit):
        optimizer.step()


@pytest.mark.parametrize(
    ("nodes", "environ", "ends"),
    [
        ("", {"PMI_SIZE": "2"}, True),
        ("PET_NNODES=1", {"OMPI_COMM_WORLD_SIZE": "4"}, True),
        ("--nnodes 1:1", {"MV2_COMM_WORLD_SIZE": "2", APART: "0"}, True),
        ("--nnodes 2", {"PMI_SIZE": "2"}, False),
        ("PET_NNODES=1:4", {"PMI_SIZE": "4"}, False),
        ("", {"PMI_SIZE": "1"}, False),
        ("", {"WORLD_SIZE": "2"}, False),  # what an operator has set in its pod
        ("", {"PMI_SIZE": "2", APART: "1"}, False),
        ("", {"PMI_SIZE": "2", one_job.MEMBER: "7"}, False),  # a rank of its job starts something of its own
    ],
)
def test_an_agent_for_one_node_is_ended_in_each_of_several_processes(
    nodes: str, environ: dict[str, str], ends: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)

    one_job.check_agent(nodes, environ)

    assert ended == ([one_job.EXIT_USER] if ends else [])
    assert ("a model of its own in each process of a launcher" in capsys.readouterr().err) is ends
