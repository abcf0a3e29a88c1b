"""What each node of a job learns of the ends of the others; the store and the agent are made up."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.ends import board, ending
from multinode_image.hooks.ends.board import DONE, GOOD, PREFIX, READ, Board
from multinode_image.hooks.ends.ending import LAST, Again, describe_failure, run_to_the_end, wait_for_others
from multinode_image.hooks.job import word
from multinode_image.hooks.job.word import WORD
from tests.support.clocks import Clock

WAITS = 20.0  # seconds for another thread, at most


class Store(dict[str, Any]):
    """A store that all nodes share; it may be gone."""

    gone = False

    def add(self, key: str, by: int) -> int:
        if self.gone:
            raise RuntimeError("Connection reset by peer")
        self[key] = self.get(key, 0) + by
        return int(self[key])

    def set(self, key: str, text: str) -> None:
        self[key] = text


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait longer than a test may take."""
    monkeypatch.delenv(WORD, raising=False)
    LAST.clear()
    for module, name, seconds in (
        (ending, "LOOK", 0.001), (ending, "LINGER", 1.0), (ending, "REST", 0.0),
        (board, "BEAT", 0.001), (board, "SILENT", 0.2), (board, "PAUSE", 0.001),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, seconds)


def group_of(backend: str) -> Any:
    """Return a group of two ranks that has met in a kind of rendezvous."""
    handler = SimpleNamespace(get_backend=lambda: backend)
    return SimpleNamespace(workers=[0, 1], spec=SimpleNamespace(rdzv_handler=handler))


GROUP = group_of("static")


class Agent:
    """An agent of torchrun, as far as the hook needs one."""

    def __init__(self, store: Store, number: int, count: int = 2, restarts: int = 0) -> None:
        self._multinode = Board(store, number, count, 0)
        self._remaining_restarts = restarts
        self._pcontext = SimpleNamespace(close=lambda *_, **__: None)

    def _monitor_workers(self, _: object) -> Any:
        return SimpleNamespace(state=SimpleNamespace(name="HEALTHY"))


def waits(agent: Agent) -> list[str]:
    """Start to wait for the others, and return what will have come of it."""
    outcome: list[str] = []

    def run() -> None:
        try:
            wait_for_others(agent)
            outcome.append("well")
        except SystemExit as error:
            outcome.append(f"ends with {error.code}")
        except Again:
            outcome.append("starts again")

    thread = threading.Thread(target=run)
    thread.start()
    agent.finish = lambda: thread.join(WAITS)  # type: ignore[attr-defined]
    return outcome


def test_nodes_end_well_only_once_all_have() -> None:
    store = Store()
    agents = [Agent(store, number, 3) for number in range(3)]
    first, second = waits(agents[0]), waits(agents[1])
    assert (first, second) == ([], [])
    third = waits(agents[2])
    for agent in agents:
        agent.finish()  # type: ignore[attr-defined]
    assert (first, second, third) == (["well"], ["well"], ["well"]) and not LAST
    assert store[f"{agents[0]._multinode.place}/{READ}"] == 3


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"rank": 1, "code": 3}, "rank 1 on node 1 (pod1) failed first, with code 3; the log of that node says why"),
        (
            {"rank": 5, "code": -9},
            "rank 5 on node 1 (pod1) failed first, with signal 9 (SIGKILL); the log of that node says why",
        ),
        ({"code": 143}, "node 1 (pod1) was told to end, by signal 15"),
    ],
)
def test_a_failure_of_another_node_ends_one_that_has_ended_well(record: dict[str, Any], said: str) -> None:
    store = Store()
    one, other = Agent(store, 0), Agent(store, 1)
    outcome = waits(one)
    other._multinode.fail({**record, "host": "pod1"})
    one.finish()  # type: ignore[attr-defined]
    other._multinode.closed = True
    assert outcome == ["ends with 1"] and [f"the job has failed: {said}"] == LAST


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_agent_says_and_tells_which_of_its_ranks_failed_first(is_gone: bool) -> None:
    agent = Agent(store := Store(), 0, 1)
    agent._multinode.closed, store.gone = True, is_gone
    ending.tell_failure(agent, {"rank": 1, "code": 3})

    host = socket.gethostname()
    record = {"rank": 1, "code": 3, "host": host, "order": int(not is_gone)}
    assert [json.loads(text) for name, text in store.items() if name.endswith("/text")] == [record] * (not is_gone)
    assert LAST[0].startswith(f"the job has failed: rank 1 on node 0 ({host}) failed first, with code 3")
    assert agent._multinode.failed == {0: record}


@pytest.mark.parametrize(
    ("others", "number", "seconds", "is_done"), [(1, 0, 1.0, False), (2, 0, 0.0, True), (2, 1, 1.0, False)]
)
def test_who_keeps_the_store_leaves_once_all_have_read(
    others: int, number: int, seconds: float, is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, store = Clock(now=100.0), Store()
    one = Agent(store, number, 3)._multinode
    monkeypatch.setattr(ending, "time", clock)
    for _ in range(others):
        one.count_up(READ)

    ending.part(one)

    assert clock.now - 100 == pytest.approx(seconds, abs=0.01)
    assert store[f"{one.place}/{READ}"] == others + 1 and store.get(f"{one.place}/{DONE}", 0) == is_done


@pytest.mark.parametrize(("readers", "seconds"), [(2, 0.0), (1, 1.0)])
def test_who_has_failed_stays_until_the_others_have_read_it(
    readers: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, agent = Clock(now=100.0), Agent(Store(), 1, 3)
    monkeypatch.setattr(ending, "time", clock)
    agent._multinode.closed, agent._multinode.failed = True, {1: {"rank": 0, "code": 1, "order": 1}}
    for _ in range(readers):
        agent._multinode.count_up(f"{READ}/1")

    ending.linger(agent)
    assert clock.now - 100 == pytest.approx(seconds, abs=0.01)
    assert LAST[0].startswith("the job has failed: rank 0 on node 1")
    LAST.clear()
    ending.linger(SimpleNamespace(_multinode=None))
    assert LAST == []


def test_a_wait_is_in_vain_only_after_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORD, str(tmp_path))
    (tmp_path / "joining-0").touch()
    clock, one = Clock(now=100.0), Agent(Store(), 0, 3)._multinode
    monkeypatch.setattr(ending, "time", clock)
    one.closed, one.good = True, {1}
    said = list[bool]()
    for clock.now in (100.0, 99.9 + ending.VAIN, 100.0 + ending.VAIN):
        said.append(bool(ending.find_vain_wait(one, 2)))

    assert said == [False, False, True]


@pytest.mark.parametrize(
    ("silent", "gone", "said"),
    [
        ([2], False, "nothing was heard of node 2 for 20 s, so node 2 has ended without a word"),
        ([], False, "nothing was heard of nodes 3, 4 for 20 s, so nodes 3, 4 has"),
        ([], True, "its store is gone, so nodes 3, 4 has ended without a word"),
    ],
)
def test_nodes_of_which_nothing_is_heard_are_named(silent: list[int], gone: bool, said: str) -> None:
    known: Any = SimpleNamespace(failed={}, gone=gone, list_silent=lambda: silent, list_missing=lambda: [3, 4])

    assert describe_failure(known).startswith(f"the job has failed: {said}")


def test_a_node_that_starts_its_ranks_again_takes_the_others_along() -> None:
    store = Store()
    one, other = Agent(store, 0), Agent(store, 1)
    outcome = waits(one)
    ending.say_and_restart(lambda *_: None)(other, None)
    one.finish()  # type: ignore[attr-defined]
    other._multinode.closed = one._multinode.closed = True
    assert outcome == ["starts again"]


@pytest.mark.parametrize("store_goes", [True, False])
def test_a_node_that_is_gone_without_a_word_ends_the_others(store_goes: bool) -> None:
    store = Store()
    one, other = Agent(store, 0), Agent(store, 1)
    until = threading.Event()
    while not one._multinode.signs[1][1] and not until.wait(0.001):
        pass
    other._multinode.closed = True
    store.gone = store_goes
    outcome = waits(one)
    one.finish()  # type: ignore[attr-defined]
    assert outcome == ["ends with 1"]
    assert "node 1" in LAST[0] and "the job has failed" in LAST[0]


def test_a_network_that_comes_back_loses_nothing() -> None:
    """What could not be written while the store did not answer is written once it does."""
    store = Store()
    one, other = Agent(store, 0), Agent(store, 1)
    store.gone = True
    other._multinode.say(f"{GOOD}/1")
    assert other._multinode.unsaid
    store.gone = False
    until = threading.Event()
    while not one._multinode.good and not until.wait(0.001):
        pass
    one._multinode.closed = other._multinode.closed = True
    assert one._multinode.good == {1} and not other._multinode.unsaid


@pytest.mark.parametrize(
    ("over", "first", "attempt"), [([], 0, 0), ([], 1, 1), ([0], 0, 1), ([0], 1, 1), ([0, 1], 0, 2), ([1], 0, 0)]
)
def test_all_nodes_take_the_first_start_that_none_has_left(over: list[int], first: int, attempt: int) -> None:
    """Whatever each has counted of its own: ranks meet under the number of their start."""
    store = Store()
    for start in over:
        one = Board(store, 1, 2, start)
        ending.say_and_restart(lambda *_: None)(SimpleNamespace(_multinode=one), None)
        one.closed = True
    assert board.find_attempt(store, first) == attempt


@pytest.mark.parametrize(("backend", "again"), [("static", True), ("c10d", False)])
def test_running_ranks_are_started_again_with_those_of_another_node(backend: str, again: bool) -> None:
    """Where nodes may join, torchrun does it."""
    agent = Agent(Store(), 0, restarts=1)
    agent._multinode.closed = agent._multinode.over = True
    look = ending.watch_others(agent, agent._monitor_workers)
    if again:
        with pytest.raises(Again):
            look(group_of(backend))
    else:
        assert look(group_of(backend)).state.name == "HEALTHY"


def test_a_store_that_keeps_a_question_for_minutes_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch tries to connect for so long; the main thread does not wait for that."""
    store, free = Store(), threading.Event()
    mine = Board(store, 0, 2, 0)
    monkeypatch.setattr(store, "add", lambda *_: free.wait(WAITS))
    until = threading.Event()
    while not mine.gone and not until.wait(0.001):
        pass
    mine.say(f"{GOOD}/0")
    assert mine.unsaid == [f"{GOOD}/0"]
    assert mine.thread.daemon, "Python does not wait for it at its end"
    mine.closed = True
    free.set()


def test_a_node_that_has_never_given_a_sign_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have no thread, for a limit of its container."""
    mine = Board(Store(), 0, 2, 0)
    assert (mine.list_silent(), mine.list_missing()) == ([], [1])
    mine.closed = True


@pytest.mark.parametrize(
    ("records", "first"),
    [
        ({0: {"rank": 0, "code": 1, "order": 2}, 1: {"rank": 1, "code": 1, "order": 1}}, "rank 1"),
        # It ended because another one did, though it has said so first.
        ({0: {"rank": 0, "code": 1, "order": 1, "lost": True}, 1: {"rank": 1, "code": -9, "order": 2}}, "rank 1"),
        (
            {0: {"rank": 0, "code": 1, "order": 2, "lost": True}, 1: {"rank": 1, "code": 1, "order": 3, "lost": True}},
            "rank 0",
        ),
        ({0: {"rank": 0, "code": 1, "order": 2}, 1: {"code": 143, "order": 1}}, "node 1"),
    ],
)
def test_the_first_failure_is_that_of_a_rank_that_has_lost_no_other(
    records: dict[int, dict[str, Any]], first: str
) -> None:
    mine = Board(Store(), 0, 2, 0)
    mine.closed = True
    mine.failed = records
    assert describe_failure(mine).startswith(f"the job has failed: {first} ")


@pytest.mark.parametrize(
    ("is_gone", "silent", "says"),
    [
        (False, [1], f"nothing was heard of node 1 for {board.SILENT:g} s, so node 1 "),
        (True, [1], "its store is gone, so node 1 "),
        (True, [], "its store is gone, so nodes 1, 2 "),
    ],
)
def test_where_no_node_has_said_that_it_failed_what_is_missing_is_said(
    is_gone: bool, silent: list[int], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Board, "gone", is_gone)
    mine = Board(Store(), 0, 3, 0)
    mine.closed = True
    for node in silent:
        mine.signs[node] = 0, 0.001
    assert describe_failure(mine).startswith(f"the job has failed: {says}")


@pytest.mark.parametrize(("restarts", "ends"), [(0, True), (2, False)])
def test_a_failure_elsewhere_ends_running_ranks_where_they_may_not_be_started_again(restarts: int, ends: bool) -> None:
    agent = Agent(Store(), 0, restarts=restarts)
    agent._multinode.closed = True
    look = ending.watch_others(agent, agent._monitor_workers)
    assert look(GROUP).state.name == "HEALTHY"
    agent._multinode.failed = {1: {"rank": 1, "code": 3, "order": 1}}
    if ends:
        with pytest.raises(SystemExit):
            look(GROUP)
    else:
        assert look(GROUP).state.name == "HEALTHY"


@pytest.mark.parametrize(("code", "ends"), [(138, 138), (3, 1)])
def test_what_time_mends_has_its_code_on_all_nodes(code: int, ends: int) -> None:
    """As a directory that another job has: an operator starts such a pod again, and none that ends with 1."""
    other = Agent(Store(), 0)
    other._multinode.failed = {1: {"rank": 1, "code": code, "order": 1}}
    with pytest.raises(SystemExit) as ended:
        ending.leave(other)
    assert ended.value.code == ends and other._multinode.closed

    mine, failure = Agent(Store(), 0, 1), SimpleNamespace(exitcode=code, message="", timestamp=1)
    result = SimpleNamespace(is_failed=lambda: True, failures={0: failure})
    if code == ends:
        with pytest.raises(SystemExit) as ended:
            run_to_the_end(lambda _: result, KeyboardInterrupt)(mine)
        assert ended.value.code == ends
    else:
        assert run_to_the_end(lambda _: result, KeyboardInterrupt)(mine) is result


def test_ranks_are_started_again_as_a_whole_and_the_last_line_comes_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []
    agent = Agent(Store(), 0, 1, restarts=3)
    (tmp_path / "word").mkdir()
    monkeypatch.setenv(WORD, str(tmp_path / "word"))

    def run(self: Agent) -> Any:
        starts.append(self._remaining_restarts)
        if len(starts) < 3:
            raise Again
        assert word.leave_last_line("trained as one job of 2 ranks", os.environ)
        return SimpleNamespace(is_failed=lambda: False)

    assert not run_to_the_end(run, KeyboardInterrupt)(agent).is_failed()
    assert starts == [3, 2, 1] and LAST == ["trained as one job of 2 ranks"]
    assert not (tmp_path / "word").exists() and not word.leave_last_line("", os.environ)


BARRIER = "at train.py:31 (barrier)"


@pytest.mark.parametrize(
    ("good", "words", "says"),
    [
        ({1}, {"joining-0": ""}, "rank 0 waits in init_process_group for the ranks of node 1"),
        ({1}, {}, ""),
        (set(), {"joining-0": ""}, ""),
        ({1, 2}, {"idle-0": BARRIER, "idle-1": "ended"}, f"rank 0 waits {BARRIER} for the ranks of nodes 1, 2"),
        ({1}, {"idle-0": BARRIER, "idle-1": "ended"}, ""),  # node 2 may come to that barrier
        ({1, 2}, {"idle-0": BARRIER}, ""),  # so may rank 1, of this node
        ({1, 2}, {"idle-0": "ended", "idle-1": "ended"}, ""),
    ],
)
def test_a_rank_that_waits_for_ranks_that_have_ended_ends_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: set[int], words: dict[str, str], says: str
) -> None:
    monkeypatch.setenv(WORD, str(tmp_path))
    monkeypatch.setattr(ending, "VAIN", 0.0)
    monkeypatch.setattr(ending, "LINGER", 0.0)  # nobody reads what this node says
    for name, text in words.items():
        (tmp_path / name).write_text(text)
    agent = Agent(Store(), 0, 3, restarts=1)
    agent._multinode.closed, agent._multinode.good = True, good
    look = ending.watch_others(agent, agent._monitor_workers)
    if says:
        with pytest.raises(SystemExit):
            look(GROUP)
        assert says in LAST[0]
    else:
        assert look(GROUP).state.name == "HEALTHY"


@pytest.mark.parametrize(
    ("rank", "ended", "said"),
    [(0, 1, ""), (0, 0, "; 1 of them had not ended 0.05 s later"), (1, 0, ending.UNKNOWN), (0, None, ending.UNKNOWN)],
)
def test_rank_0_without_an_agent_says_what_it_does_not_know_of_the_others(
    rank: int, ended: int | None, said: str
) -> None:
    """ended: how many others have; None where the group was destroyed."""
    store = Store({f"{PREFIX}/{board.ENDED}": ended})
    distributed = SimpleNamespace(
        is_initialized=lambda: ended is not None,
        get_rank=lambda: rank,
        get_world_size=lambda: 2,
        _get_default_store=lambda: store,
    )
    assert ending.describe_others(distributed, 0.05) == said
    assert ended is None or store[f"{PREFIX}/{board.ENDED}"] == ended + 1


class Kind:
    """torchrun's agent, as a class that is changed when it is imported."""

    def __init__(self, store: Store, restarts: int = 0) -> None:
        self._store, self._remaining_restarts, self.log = store, restarts, list[Any]()

    def _rendezvous(self, group: Any) -> str:
        self.log.append("met")
        return "met"

    def _restart_workers(self, group: Any) -> str:
        self.log.append(("restarted", dict(self._store)))
        return "restarted"

    def _exit_barrier(self) -> None:
        raise AssertionError("torch's own waits for any end")

    def _invoke_run(self, role: str) -> Any:
        return SimpleNamespace(is_failed=lambda: False)

    def run(self, role: str) -> str:
        if role == "told":
            raise Told
        return role


class Told(Exception):
    """What a signal raises in an agent."""

    sigval = 10


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> type[Kind]:
    kind = type("Kind", (Kind,), dict(vars(Kind)))
    ending.watch_agents(SimpleNamespace(SimpleElasticAgent=kind, SignalException=Told))
    monkeypatch.setattr(ending, "MET", [])
    monkeypatch.delenv(ending.START, raising=False)
    return kind


@pytest.mark.parametrize(
    ("backend", "nodes", "left", "attempt", "is_watched"),
    [("static", 2, [], 1, True), ("static", 2, [1], 2, True), ("static", 1, [], 1, False), ("c10d", 2, [1], 0, True)],
)
def test_nodes_that_have_met_agree_on_the_start_of_their_ranks(
    agents: type[Kind], backend: str, nodes: int, left: list[int], attempt: int, is_watched: bool
) -> None:
    store = Store()
    for start in left:
        Board(store, 0, 2, start).say(board.RESTARTS)
    agent = agents(store, restarts=2)
    group = group_of(backend)
    group.spec.max_restarts, group.group_world_size, group.group_rank = 3, nodes, 1
    assert ending.is_static(group) is (backend == "static")

    assert agent._rendezvous(group) == "met" and agent.log == ["met"]

    watched = vars(agent)["_multinode"]
    assert (ending.MET, os.environ.pop(ending.START), watched is not None) == ([nodes], str(attempt), is_watched)
    assert agent._remaining_restarts == (3 - attempt if backend == "static" else 2)
    if watched:
        assert (watched.number, watched.count) == (1, nodes)
    agent._rendezvous(group)
    os.environ.pop(ending.START)
    assert not watched or watched.closed
    ending.close(agent)


def test_a_group_of_another_release_is_let_alone(agents: type[Kind]) -> None:
    agent = agents(Store())
    assert agent._rendezvous(SimpleNamespace(group_world_size=2)) == "met"
    assert vars(agent)["_multinode"] is None and ending.START not in os.environ


def test_others_are_told_before_ranks_start_again(agents: type[Kind]) -> None:
    agent, store = agents(Store()), Store()
    assert agent._restart_workers(GROUP) == "restarted" and agent.log == [("restarted", {})]
    agent._store = store
    vars(agent)["_multinode"] = Board(store, 0, 2, 0)
    agent._restart_workers(GROUP)
    assert any(board.RESTARTS in key for key in agent.log[-1][1])


def test_a_signal_is_told_the_others_as_what_has_ended_the_node(
    agents: type[Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    told, lingered = list[Any](), list[Any]()
    monkeypatch.setattr(ending, "tell_failure", lambda _, failure: told.append(failure))
    monkeypatch.setattr(ending, "linger", lingered.append)

    def run(*_: Any) -> Any:
        raise Told

    agent = Agent(Store(), 0)
    with pytest.raises(Told):
        run_to_the_end(run, Told)(agent)
    assert told == [{"code": 138}] and lingered == []
    other = agents(Store())
    assert other.run("well") == "well" and lingered == []
    with pytest.raises(Told):
        other.run("told")
    assert lingered == [other]


@pytest.mark.parametrize(
    ("number", "record", "said"),
    [
        (
            0,
            {"code": 3, "rank": 5, "host": "pod1"},
            "rank 5 on node 1 (pod1) failed first, with code 3; the log of that",
        ),
        (1, {"code": -9, "rank": 5, "host": "pod1"}, "rank 5 on node 1 (pod1) failed first, with signal 9 (SIGKILL)"),
        (1, {"code": -99, "rank": 5}, "rank 5 on node 1 () failed first, with signal 99 (99)"),
        (0, {"code": 143, "host": "pod1"}, "node 1 (pod1) was told to end, by signal 15"),
        (0, {"waits": "rank 0 waits"}, "the job has failed: rank 0 waits"),
    ],
)
def test_the_first_failure_is_said_in_words(number: int, record: dict[str, Any], said: str) -> None:
    known = Board(Store(), number, 2, 0)
    known.closed = True
    known.failed = {1: {"order": 1, **record}}

    text = describe_failure(known)

    assert said in text and text.endswith("; the log of that node says why") is (number == 0 and "rank" in record)
    assert [ending.name_nodes(nodes) for nodes in ([1], [0, 2])] == ["node 1", "nodes 0, 2"]
