"""Which ranks a process is compared with, at which steps it is looked at, and how it ends; torch is made up."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.job import one_job, place
from multinode_image.hooks.job.messenger import Message, Ring
from multinode_image.hooks.job.one_job import MEMBER
from multinode_image.hooks.model import one_model, optimizers
from multinode_image.hooks.model.one_model import State, find_rings
from multinode_image.hooks.model.proof import Look, Record
from multinode_image.hooks.model.weights import DIFFERENT, EQUAL, Sample, unpack
from multinode_image.settings import APART, SIZE
from tests.support.torch_stand_ins import AGENT, PID, PLACE, RANK, New, Old, torch


@pytest.fixture(autouse=True)
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Show no process."""
    monkeypatch.setattr(place, "PROC", tmp_path)
    return tmp_path


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

    compared, is_whole = find_rings(State(environ), modules, environ)

    assert [f"{ring.host}:{ring.port} {ring.prefix} {ring.rank} of {ring.size}" for ring in compared] == rings
    assert (is_whole, os.environ[MEMBER] == PID) == (whole, whole)


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


class Sent:
    """A messenger that keeps what it gets; answer: what others say to each message, None for one of other elements."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def answer(self, *changes: float | None) -> None:
        for message in self.messages:
            if message.deliver and message.text != b"1":
                start, now = unpack(message.text)
                others = [tuple(value * (change or 1) for value in now[change is None :]) for change in changes]
                message.deliver([Sample(start[: len(other)], other).pack() for other in others])


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
    kept = Sent()
    monkeypatch.setattr(one_model, "Messenger", lambda: kept)
    return kept


@pytest.fixture(params=[New, Old])
def optimizer(request: pytest.FixtureRequest, sent: Sent) -> Iterator[Any]:
    """Make an optimizer, as torch has it in its releases, that is followed."""
    module = request.param()
    optimizers.watch_optimizers(module)
    yield getattr(module, "Adam", module.Optimizer)()


def step(optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        assert optimizer.step() == 1


def test_weights_are_looked_at_after_powers_of_two(optimizer: Any, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    set_world(monkeypatch, RANK, torch(2))

    step(optimizer, 20)

    keys = [message.key for message in sent.messages]
    assert [key.rpartition("/")[2] for key in keys] == ["1", "2", "4", "8", "16"]
    assert len({key.rpartition("/")[0] for key in keys}) == 1
    assert unpack(sent.messages[-1].text) == Sample((1.0,) * 16, (17.0,) * 16)


@pytest.mark.parametrize(
    ("modules", "changes", "ends"),
    [
        pytest.param(torch(2), (2,), True, id="different, and nothing exchanged"),
        pytest.param(torch(2), (1,), False, id="equal"),
        pytest.param(torch(3), (1, 2, 1), True, id="one of several is different"),
        pytest.param(torch(3), (2, None), False, id="one of several is of another model"),
        pytest.param(torch(0), (2,), True, id="no group"),
        pytest.param(torch(2, None), (2,), False, id="nobody counts"),
    ],
)
def test_a_process_that_trains_another_model_ends_at_step_64(
    modules: dict[str, Any], changes: tuple[float | None, ...], ends: bool, optimizer: Any, sent: Sent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    set_world(monkeypatch, RANK, modules)
    step(optimizer, 64)
    sent.answer(*changes)
    step(optimizer, 1)
    sent.answer(*changes)

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
    optimizers.watch_optimizers(module)

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

    wrapped = Parallel("model")
    assert wrapped.module == "model" and wrapped in one_model.WRAPPED


def test_the_ranks_of_a_ring() -> None:
    rings = [Ring("pod0", 1, "", rank, 4) for rank in range(4)]

    assert [ring.others for ring in rings] == [(1, 2, 3), (2,), (3,), (0,)]


# The end of a process.

SAME, OTHER = Look(64, EQUAL, 0.0, True), Look(64, DIFFERENT, 0.5, True)
ALONE_LOOK = Look(64, DIFFERENT, 0.5, False)


def record(name: str, *looks: Look, **fields: Any) -> Record:
    return Record(name, 65, looks, **{"exchanged": True, **fields})


@pytest.mark.parametrize(
    ("records", "rank", "fault", "said"),
    [
        ([record("SGD", SAME, SAME)], "0", "", ""),
        ([record("SGD", ALONE_LOOK, ALONE_LOOK, whole=True)], "1", "each rank trains a model of its own, and", ""),
        ([record("SGD", SAME, SAME, wrapped=True), record("Adam", OTHER, OTHER)], "0", "",
         "each rank trains a model of its own beside one"),
        ([record("SGD", SAME, SAME, wrapped=True), record("Adam", OTHER, OTHER)], "1", "", ""),
        ([record("SGD", OTHER, OTHER, wrapped=True)], "0", "", "weights differ, though all are in"),
        ([record("SGD", OTHER, wrapped=True)], "0", "", ""),
    ],
)  # fmt: skip
def test_what_has_come_is_said_once_or_ends_the_rank(
    records: list[Record], rank: str, fault: str, said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    state = State(RANK)
    monkeypatch.setattr(state, "records", lambda: records)
    monkeypatch.setenv("RANK", rank)

    for _ in range(2):
        one_model.weigh(state)

    assert (state.fault.fact if state.fault else "").startswith(fault) and bool(state.fault) is bool(fault)
    err = capsys.readouterr().err
    assert err.count(said or "model") == bool(said)


@pytest.mark.parametrize("wrapped", [True, False])
def test_the_remedy_for_a_model_that_is_wrapped_is_another(wrapped: bool) -> None:
    fault = one_model.describe_apart(record("SGD", ALONE_LOOK, wrapped=wrapped))

    assert ("not its .module" in fault.remedy) is wrapped and fault.remedy.endswith(f"or {APART}=1 where that is meant")


@pytest.mark.parametrize(
    ("rank", "exchanged", "formed", "messages", "waits"),
    [
        ("1", True, True, True, [0.0]), ("0", True, True, True, [one_model.SOON]),
        ("0", False, True, True, [one_model.LATE]), ("1", False, False, True, [one_model.LATEST]),
        ("0", True, True, False, []), ("1", None, True, True, [0.0]),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("left", "alone"), [(True, False), (False, True), (False, False)])
def test_a_rank_waits_at_its_end_as_long_as_that_may_change_something(
    rank: str, exchanged: bool | None, formed: bool, messages: bool, waits: list[float], left: bool, alone: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    state, waited = State(RANK), list[float]()

    def wait(is_done: Any, seconds: float) -> bool:
        waited.append(seconds)
        return bool(is_done())

    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(state, "records", lambda: [record("SGD", exchanged=exchanged)])
    state.formed, state.left, state.alone = formed, left, alone
    state.messenger = SimpleNamespace(wait=wait) if messages else None  # type: ignore[assignment]

    one_model.wait(state)

    ends = left or (alone and not formed)
    assert waited == [*waits, *[one_model.LAST_LOOK] * (ends and messages)]


@pytest.mark.parametrize(
    ("job", "is_child", "trains", "says", "hears"),
    [(True, False, True, True, True), (True, False, False, True, False), (True, True, True, False, False),
     (False, False, True, False, False)],
)  # fmt: skip
def test_a_rank_that_ends_tells_the_others_once(
    sent: Sent, job: bool, is_child: bool, trains: bool, says: bool, hears: bool
) -> None:
    state = State(RANK if job else PLACE)
    state.is_child = is_child
    state.trainings = [object()] * trains  # type: ignore[list-item]

    for _ in range(2):
        one_model.tell_end(state)

    assert [(message.key, message.ring.prefix) for message in sent.messages] == [("left", "multinode/0/2/job")] * says
    for message in sent.messages:
        assert (message.deliver is not None) is hears
        if message.deliver:
            message.deliver([b"1"])
    assert state.left is hears


@pytest.mark.parametrize(
    ("records", "fields", "fact"),
    [
        ([record("SGD", SAME, SAME)], {}, ""),
        ([record("SGD", ALONE_LOOK)], {}, "and nothing is exchanged"),
        ([record("SGD", SAME, SAME, wrapped=True), record("Adam", OTHER, OTHER)], {}, "beside one that all train"),
        ([], {"fault": True}, "known before"),
        ([], {"off": True, "fault": True}, ""),
        ([record("SGD")], {"alone": True}, "no process group"),
        ([record("SGD")], {"alone": True, "formed": True}, ""),
        ([record("SGD")], {"alone": True, "rpc": True}, ""),
        ([record("SGD")], {}, ""),
        ([record("SGD")], {"job": None}, "no process group"),
        ([record("SGD")], {"alone": True, "trainings": []}, ""),
    ],
)
def test_a_process_that_ends_well_is_looked_at_once_more(
    records: list[Record], fields: dict[str, Any], fact: str, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, taken = State(RANK), list[int]()
    known: Any = SimpleNamespace(fact="known before")
    state.trainings = [SimpleNamespace(steps=65, name="SGD of 1 parameters")]  # type: ignore[list-item]
    for name, value in fields.items():
        setattr(state, name, known if name == "fault" else value)
    monkeypatch.setattr(one_model, "KNOWN", [state])
    monkeypatch.setattr(state, "records", lambda: records)
    monkeypatch.setattr(one_model, "take", lambda _, training, step: taken.append(step))
    monkeypatch.setattr(one_model, "wait", lambda _: taken.append(-1))
    asked: Any = SimpleNamespace(fact="no process group")
    monkeypatch.setattr(one_model, "find_fault", lambda *_: asked)

    fault = one_model.finish({}, RANK)

    assert (fault.fact if fault else "").endswith(fact) and bool(fault) is bool(fact)
    assert taken == ([] if "off" in fields else [*[65] * len(state.trainings), -1])
