"""Which ranks a process is compared with, at which steps it is looked at, and how it ends; torch is made up."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks import one_job, one_model
from multinode_image.hooks.messenger import Message, Ring
from multinode_image.hooks.one_job import DISTRIBUTED, MEMBER
from multinode_image.hooks.one_model import Job, State, count_exchanges, find_rings, read_job
from multinode_image.hooks.weights import Sample, unpack
from multinode_image.settings import APART, SIZE

PID = str(os.getpid())
PLACE = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2", "MULTINODE_TRAINING": PID}
AGENT = {"MASTER_ADDR": "pod0", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True"}
RANK = {**PLACE, **AGENT}
STORE = SimpleNamespace(underlying_store=SimpleNamespace(host="pod0", port=41000))


class Group:
    """A group of torch, by which it is a key."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._get_sequence_number_for_group = count


def torch(size: int = 0, counts: Any = 0, store: Any = STORE) -> dict[str, Any]:
    """Make up torch's module with a group of so many ranks; 0 for none; counts: the collectives that it has begun."""

    def count() -> int:
        if counts is None:
            raise RuntimeError("not implemented for this backend")
        return int(counts)

    group = Group(count)
    module = SimpleNamespace(
        GroupMember=SimpleNamespace(WORLD=group if size else None),
        is_initialized=lambda: bool(size),
        get_rank=lambda: 1 % max(1, size),
        get_world_size=lambda: size,
        _get_default_store=lambda: store,
        _default_pg_init_method="env://" if size else None,
        _world=SimpleNamespace(pg_map={group: ()}),
    )
    return {DISTRIBUTED: module}


def rpc(is_set: bool) -> dict[str, Any]:
    return {"torch.distributed.rpc.api": SimpleNamespace(_is_current_rpc_agent_set=lambda: is_set)}


@pytest.fixture(autouse=True)
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Show no process."""
    monkeypatch.setattr(one_model, "PROC", tmp_path)
    return tmp_path


def test_what_a_script_sets_is_no_place_of_a_rank(proc: Path) -> None:
    (proc / PID).mkdir()
    (proc / PID / "environ").write_text("\0".join(f"{name}={value}" for name, value in RANK.items()) + "\0")

    job = read_job({**RANK, "MASTER_ADDR": "localhost", "MASTER_PORT": "12355", "RANK": "0"})

    assert job == Job(1, 2, "pod0", 29500, "0")


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        (RANK, Job(1, 2, "pod0", 29500, "0")),
        ({**RANK, "TORCHELASTIC_RESTART_COUNT": "3"}, Job(1, 2, "pod0", 29500, "3")),
        (PLACE, None),  # mpirun, srun
        ({**RANK, "TORCHELASTIC_USE_AGENT_STORE": "False"}, None),
        ({**RANK, "MASTER_PORT": "many"}, None),
        ({SIZE: "2", "MULTINODE_TRAINING": "1"}, None),  # no rank
        ({**RANK, "MULTINODE_TRAINING": "none"}, Job(1, 2, "pod0", 29500, "0")),
    ],
)
def test_the_place_of_a_rank_is_what_its_agent_told(environ: dict[str, str], job: Job | None) -> None:
    assert read_job(environ) == job


@pytest.mark.parametrize(
    ("modules", "environ", "rings", "whole"),
    [
        pytest.param(torch(2), RANK, ["pod0:29500 multinode/0/2/group 1 of 2"], True, id="the group is the job"),
        pytest.param(torch(2), PLACE, ["pod0:41000 multinode/0/2/group 1 of 2"], True, id="mpirun"),
        pytest.param(torch(0), RANK, ["pod0:29500 multinode/0/2/job 1 of 2"], False, id="no group"),
        pytest.param(torch(0), PLACE, [], False, id="mpirun without a group"),
        pytest.param(torch(1), RANK, ["pod0:29500 multinode/0/2/0of1job 1 of 2"], False, id="a group of one"),
        pytest.param(
            torch(2),
            {**RANK, "WORLD_SIZE": "4"},
            ["pod0:41000 multinode/0/2/group 1 of 2", "pod0:29500 multinode/0/4/1of2job 1 of 4"],
            False,
            id="a group of each node",
        ),
        pytest.param(
            torch(2),
            {**RANK, "MULTINODE_TRAINING": "1"},
            ["pod0:41000 multinode/0/2/group 1 of 2", "pod0:29500 multinode/0/2/1of2job 1 of 2"],
            True,
            id="a group that a rank has started",
        ),
        pytest.param(torch(2, store=object()), {**PLACE, "MASTER_ADDR": "a", "MASTER_PORT": "7"},
                     ["a:7 multinode/0/2/group 1 of 2"], True, id="an older torch"),
    ],
)  # fmt: skip
def test_who_is_compared(
    modules: dict[str, Any], environ: dict[str, str], rings: list[str], whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MEMBER, "")

    found, is_whole = find_rings(State(environ), modules, environ)

    assert [f"{ring.host}:{ring.port} {ring.prefix} {ring.rank} of {ring.size}" for ring in found] == rings
    assert (is_whole, os.environ[MEMBER] == PID) == (whole, whole)


@pytest.mark.parametrize(
    ("modules", "count"),
    [({}, 0), (torch(0), 0), (torch(2, 7), 7), (torch(2, None), None), (rpc(True), None), (rpc(False), 0)],
)
def test_groups_are_asked_what_they_have_exchanged(modules: dict[str, Any], count: int | None) -> None:
    assert count_exchanges(modules) == count


@pytest.mark.parametrize(
    ("environ", "off"),
    [
        (RANK, False),
        ({}, True),
        ({**RANK, APART: "1"}, True),
        ({**RANK, MEMBER: "1"}, True),
        ({**RANK, MEMBER: PID}, False),
    ],
)
def test_who_is_not_followed(environ: dict[str, str], off: bool) -> None:
    assert State(environ).off is off


class Weight:
    """A parameter of 16 elements, each of which is its value."""

    shape, dtype = (16,), "torch.float32"

    def __init__(self) -> None:
        self.value = 1.0

    def __getitem__(self, index: tuple[int, ...]) -> float:
        return self.value


class New:
    """torch.optim.optimizer with hooks for all optimizers."""

    torch = SimpleNamespace()

    def __init__(self) -> None:
        self.hooks: OrderedDict[int, Callable[..., None]] = OrderedDict()
        module = self

        class Optimizer:
            def __init__(self) -> None:
                self.param_groups = [{"params": [Weight()]}]

            def step(self) -> int:
                for hook in module.hooks.values():
                    hook(self, (), {})
                return move(self)

        self.Optimizer = Optimizer

    def register_optimizer_step_pre_hook(self, hook: Callable[..., None]) -> None:
        self.hooks[len(self.hooks)] = hook


class Old:
    """That of torch 1.10: each class is changed when its first optimizer is made."""

    def __init__(self) -> None:
        class Base:
            def __init__(self) -> None:
                self.param_groups = [{"params": [Weight()]}]
                self._hook_for_profile()

            def _hook_for_profile(self) -> None:
                if not getattr(type(self).step, "hooked", False):
                    step = type(self).step
                    type(self).step = lambda optimizer: step(optimizer)  # type: ignore[assignment,method-assign]
                    type(self).step.hooked = True  # type: ignore[attr-defined]

            def step(self) -> int:
                return move(self)

        class Optimizer(Base):
            def step(self) -> int:
                return move(self)

        self.Optimizer, self.Adam = Base, Optimizer


def move(optimizer: Any) -> int:
    """Make a step."""
    optimizer.param_groups[0]["params"][0].value += 1
    return 1


class Sent:
    """A messenger that keeps what it gets; answer: what all others say to each message."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def answer(self, change: float) -> None:
        for message in self.messages:
            if message.deliver and message.text != b"1":
                start, now = unpack(message.text)
                message.deliver([Sample(start, tuple(value * change for value in now)).pack()])


def set_world(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], modules: dict[str, Any]) -> None:
    for name in (SIZE, APART, MEMBER, *AGENT, "RANK", "MULTINODE_TRAINING", *one_job.SIZES):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "modules", {**sys.modules, **modules})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Begin as a new process, whose messages are kept."""
    monkeypatch.setattr(one_model, "KNOWN", [])
    monkeypatch.setattr(one_job, "TOLD", [])
    made = Sent()
    monkeypatch.setattr(one_model, "Messenger", lambda: made)
    return made


@pytest.fixture(params=[New, Old])
def optimizer(request: pytest.FixtureRequest, sent: Sent) -> Iterator[Any]:
    """Make an optimizer, as torch has it in its releases, that is followed."""
    module = request.param()
    one_model.watch_optimizers(module)
    yield getattr(module, "Adam", module.Optimizer)()


def step(optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        assert optimizer.step() == 1


def test_the_profiler_of_an_old_torch_has_its_own_change_of_a_step() -> None:
    module = Old()
    one_model.watch_optimizers(module)

    kind = type(module.Adam())

    assert kind.step.hooked and kind.step.follows_weights  # type: ignore[attr-defined]


def test_weights_are_looked_at_after_powers_of_two(optimizer: Any, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    set_world(monkeypatch, RANK, torch(2))

    step(optimizer, 20)

    keys = [message.key for message in sent.messages]
    assert [key.rpartition("/")[2] for key in keys] == ["1", "2", "4", "8", "16"]
    assert len({key.rpartition("/")[0] for key in keys}) == 1
    assert unpack(sent.messages[-1].text) == Sample((1.0,) * 16, (17.0,) * 16)


@pytest.mark.parametrize(
    ("modules", "change", "ends"),
    [
        pytest.param(torch(2), 2, True, id="different, and nothing exchanged"),
        pytest.param(torch(2), 1, False, id="equal"),
        pytest.param(torch(0), 2, True, id="no group"),
        pytest.param(torch(2, None), 2, False, id="nobody counts"),
    ],
)
def test_a_process_that_trains_another_model_ends_at_step_64(
    modules: dict[str, Any], change: float, ends: bool, optimizer: Any, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_world(monkeypatch, RANK, modules)
    step(optimizer, 64)
    sent.answer(change)
    step(optimizer, 1)
    sent.answer(change)

    if not ends:
        step(optimizer, 100)
        return
    with pytest.raises(SystemExit) as ended:
        optimizer.step()
    assert ended.value.code == 2


@pytest.mark.parametrize(("rank", "steps"), [("0", 1000), ("1", 64)])
def test_where_nobody_can_be_asked_a_rank_without_a_group_ends_at_step_64(
    rank: str, steps: int, optimizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_world(monkeypatch, {**PLACE, "RANK": rank}, torch(0))
    step(optimizer, steps)

    if rank == "0":
        fault = one_model.finish(sys.modules, os.environ)
        assert fault is not None and "rank 0, in no process group" in fault.value
        return
    with pytest.raises(SystemExit):
        optimizer.step()


def test_a_training_before_a_group_of_all_is_not_judged(
    optimizer: Any, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_world(monkeypatch, RANK, torch(0))
    step(optimizer, 60)
    sent.answer(2)
    sent.messages.clear()
    monkeypatch.setattr(sys, "modules", {**sys.modules, **torch(2)})

    step(optimizer, 70)
    sent.answer(1)

    assert one_model.describe_training(2) == (
        "2 ranks have trained the same model, each by itself: equal weights at step 64, and nothing was exchanged; "
        "do all read the same data?"
    )


def test_optimizers_that_are_gone_do_not_count(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    set_world(monkeypatch, RANK, torch(2))
    module = New()
    one_model.watch_optimizers(module)

    kept = [module.Optimizer() for _ in range(3)]
    for _ in range(2 * one_model.MOST):
        kept[-1] = module.Optimizer()
        step(kept[-1], 2)

    assert len(sent.messages) == 2 * one_model.MOST


def test_a_process_that_is_apart_on_purpose_is_not_followed(
    optimizer: Any, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_world(monkeypatch, {**RANK, APART: "1"}, torch(0))

    step(optimizer, 200)

    assert not sent.messages


def test_a_model_that_is_wrapped_is_remembered() -> None:
    class Parallel:
        def __init__(self, module: object) -> None:
            self.module = module

    one_model.watch_parallel(SimpleNamespace(DistributedDataParallel=Parallel))

    made = Parallel("model")
    assert made.module == "model" and made in one_model.WRAPPED


def test_the_ranks_of_a_ring() -> None:
    rings = [Ring("pod0", 1, "", rank, 4) for rank in range(4)]

    assert [ring.others for ring in rings] == [(1, 2, 3), (2,), (3,), (0,)]
