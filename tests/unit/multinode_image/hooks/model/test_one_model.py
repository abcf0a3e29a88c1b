"""How a process ends that was compared with others, and how long it waits for them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.job import place
from multinode_image.hooks.job.messenger import Message, Ring
from multinode_image.hooks.job.one_job import MEMBER
from multinode_image.hooks.model import one_model
from multinode_image.hooks.model.one_model import State
from multinode_image.hooks.model.proof import Look, Record
from multinode_image.hooks.model.weights import DIFFERENT, EQUAL
from multinode_image.settings import APART
from tests.support.job_environ import PID, PLACE, RANK


@pytest.fixture(autouse=True)
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Show no process."""
    monkeypatch.setattr(place, "PROC", tmp_path)
    return tmp_path


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
    """A messenger that keeps what it gets."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Begin as a new process, whose messages are kept."""
    monkeypatch.setattr(one_model, "KNOWN", [])
    kept = Sent()
    monkeypatch.setattr(one_model, "Messenger", lambda: kept)
    return kept


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
