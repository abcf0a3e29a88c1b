"""What each node of a job learns of the ends of the others: agents of torchrun, their stores, and ranks that run."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed.elastic.agent.server import WorkerSpec, api
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, ProcessFailure
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from multinode_image.hooks.ends import board, ending
from multinode_image.hooks.ends.board import DONE, GOOD, PREFIX, READ, RESTARTS, Board
from multinode_image.hooks.ends.ending import LAST, Again, run_to_the_end, wait_for_others
from multinode_image.hooks.job import word
from multinode_image.hooks.job.word import WORD

SECONDS, STOP = 20.0, api.SignalException  # SECONDS: for another thread, at most
HANDLERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Store(dist.HashStore):
    """A store that all nodes share, which may be gone."""

    gone = False

    def add(self, key: str, by: int) -> int:
        if self.gone:
            raise RuntimeError("Connection reset by peer")
        return int(super().add(key, by))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let nobody wait longer than a test may take; what agents change of a process goes back."""
    for name in (WORD, ending.START):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    LAST.clear()
    monkeypatch.setattr(ending, "MET", [])
    for module, name, seconds in (
        (ending, "LOOK", 0.001), (ending, "LINGER", 1.0), (ending, "REST", 0.0),
        (board, "BEAT", 0.001), (board, "PAUSE", 0.001),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, seconds)
    before = {number: signal.getsignal(number) for number in HANDLERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def soon_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a node count as gone after a moment: a busy machine may keep others from their turn as long."""
    monkeypatch.setattr(board, "SILENT", 0.2)


@pytest.fixture
def boards() -> Iterator[Callable[..., Board]]:
    """Return what makes a board of a node, whose thread ends with the test."""
    kept = list[Board]()

    def make(store: Any, number: int, count: int = 2, attempt: int = 0) -> Board:
        kept.append(Board(store, number, count, attempt))
        return kept[-1]

    yield make
    for one in kept:
        one.closed = True


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def static(number: int = 0, count: int = 1, port: int = 0) -> Any:
    return StaticTCPRendezvous("127.0.0.1", port or find_port(), number, count, "job", 30)


def dynamic() -> Any:
    store = dist.HashStore()
    return DynamicRendezvousHandler.from_backend("job", store, C10dRendezvousBackend(store, "job"), 1, 2)


def make_agent(handler: Any = None, restarts: int = 0, known: Board | None = None) -> Any:
    """Return an agent of one rank, which runs until it is ended; known: what it has read of the other nodes."""
    words: dict[str, Any] = {"entrypoint": signal.pause, "max_restarts": restarts, "monitor_interval": 0.01}
    spec = WorkerSpec("default", 1, handler or static(), **words)
    agent: Any = LocalElasticAgent(spec, logs_specs=DefaultLogsSpecs(), start_method="fork")
    agent._multinode = known
    return agent


@pytest.fixture
def running(boards: Callable[..., Board]) -> Iterator[Callable[..., Any]]:
    """Return what makes node 0 of some, whose rank runs until it is ended, and how its agent looks after it."""
    kept = list[Any]()

    def make(backend: str = "static", count: int = 2, restarts: int = 0) -> Any:
        agent = make_agent(None, restarts)
        kept.append(agent)
        agent._initialize_workers(agent.get_worker_group())
        agent._worker_group.spec.rdzv_handler = static() if backend == "static" else dynamic()
        agent._multinode = boards(dist.HashStore(), 0, count)
        agent._multinode.closed = True
        return agent, ending.watch_others(agent, agent._monitor_workers)

    yield make
    for agent in kept:
        agent._pcontext.close(signal.SIGKILL)


def is_running(agent: Any) -> bool:
    return all(Path(f"/proc/{rank}").exists() for rank in agent._pcontext.pids().values())


@pytest.fixture
def waits() -> Callable[[Board], Future[str]]:
    """Return what lets a node wait for the others, and gives what comes of it."""

    def run(known: Board) -> str:
        try:
            wait_for_others(make_agent(known=known))
            return "well"
        except SystemExit as error:
            return f"ends with {error.code}"
        except Again:
            return "starts again"

    def start(known: Board) -> Future[str]:
        end: Future[str] = Future()
        threading.Thread(target=lambda: end.set_result(run(known)), daemon=True).start()
        return end

    return start


def await_until(is_done: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not is_done():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_nodes_end_well_only_once_all_have(boards: Any, waits: Any) -> None:
    store = Store()
    first, second, third = (boards(store, number, 3) for number in range(3))
    ends = [waits(first), waits(second)]
    await_until(lambda: first.good and second.good)
    assert not any(end.done() for end in ends)

    ends.append(waits(third))

    assert [end.result(SECONDS) for end in ends] == ["well"] * 3 and not LAST
    assert all(one.closed for one in (first, second, third))
    assert (third.count_up(READ, 0), third.count_up(DONE, 0)) == (3, 1), "the store was kept until all had read"


def test_a_node_that_waits_for_long_says_once_for_whom(
    boards: Any, waits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, said = Store(), list[str]()
    one, other = boards(store, 0), boards(store, 1)
    monkeypatch.setattr(ending, "PATIENCE", 0.0)
    monkeypatch.setattr(ending, "print_line", said.append)
    end = waits(one)
    await_until(lambda: said)
    time.sleep(20 * ending.LOOK)

    assert said == ["the ranks of this node have ended well; it waits for node 1, which train on"]
    assert [waits(other).result(SECONDS), end.result(SECONDS)] == ["well"] * 2


def test_a_failure_of_another_node_ends_one_that_has_ended_well(boards: Any, waits: Any) -> None:
    store = Store()
    one, other = boards(store, 0), boards(store, 1)
    end = waits(one)
    other.fail({"rank": 1, "code": 3, "host": "pod1"})

    assert end.result(SECONDS) == "ends with 1"
    said = "the job has failed: rank 1 on node 1 (pod1) failed first, with code 3; the log of that node says why"
    assert [said] == LAST


def test_a_node_that_starts_its_ranks_again_takes_the_others_along(boards: Any, waits: Any) -> None:
    store = Store()
    one, other = boards(store, 0), boards(store, 1)
    end = waits(one)
    ending.say_and_restart(lambda *_: None)(make_agent(known=other), None)

    assert end.result(SECONDS) == "starts again"


@pytest.mark.parametrize("store_goes", [True, False])
def test_a_node_that_is_gone_without_a_word_ends_the_others(
    store_goes: bool, soon_silent: None, boards: Any, waits: Any
) -> None:
    store = Store()
    one, other = boards(store, 0), boards(store, 1)
    await_until(lambda: one.signs[1][1])
    other.closed = True
    store.gone = store_goes

    assert waits(one).result(SECONDS) == "ends with 1"
    assert LAST[0].startswith(f"the job has failed: {'its store' if store_goes else 'nothing was heard of node 1'}")


def test_a_network_that_comes_back_loses_nothing(boards: Any) -> None:
    """What could not be written while the store did not answer is written once it does."""
    store = Store()
    one, other = boards(store, 0), boards(store, 1)
    store.gone = True
    other.say(f"{GOOD}/1")
    assert other.unsaid
    store.gone = False

    await_until(lambda: one.good == {1} and not other.unsaid)


def test_a_store_that_keeps_a_question_for_minutes_is_gone(
    soon_silent: None, boards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch tries to connect for so long; the main thread does not wait for that."""
    store, free = Store(), threading.Event()
    mine = boards(store, 0)
    monkeypatch.setattr(store, "add", lambda *_: free.wait(SECONDS))
    await_until(lambda: mine.gone)

    mine.say(f"{GOOD}/0")

    assert mine.unsaid == [f"{GOOD}/0"]
    assert mine.thread.daemon, "Python does not wait for it at its end"
    free.set()


@pytest.mark.parametrize(
    ("over", "first", "attempt"), [([], 0, 0), ([], 1, 1), ([0], 0, 1), ([0], 1, 1), ([0, 1], 0, 2), ([1], 0, 0)]
)
def test_all_nodes_take_the_first_start_that_none_has_left(
    over: list[int], first: int, attempt: int, boards: Any
) -> None:
    """Whatever each has counted of its own: ranks meet under the number of their start."""
    store = dist.HashStore()
    for start in over:
        boards(store, 1, 2, start).say(RESTARTS)

    assert board.find_attempt(store, first) == attempt


@pytest.mark.parametrize(("backend", "again"), [("static", True), ("c10d", False)])
def test_running_ranks_are_started_again_with_those_of_another_node(backend: str, again: bool, running: Any) -> None:
    """Where nodes may join, torchrun does it."""
    agent, look = running(backend, restarts=1)
    agent._multinode.over = True

    if again:
        with pytest.raises(Again):
            look(agent._worker_group)
    else:
        assert look(agent._worker_group).state == api.WorkerState.HEALTHY
    assert is_running(agent) is not again


@pytest.mark.parametrize(("restarts", "ends"), [(0, True), (2, False)])
def test_a_failure_elsewhere_ends_running_ranks_where_they_may_not_be_started_again(
    restarts: int, ends: bool, running: Any
) -> None:
    agent, look = running(restarts=restarts)
    agent._multinode.failed = {1: {"rank": 1, "code": 3, "order": 1}}

    if ends:
        with pytest.raises(SystemExit):
            look(agent._worker_group)
    else:
        assert look(agent._worker_group).state == api.WorkerState.HEALTHY
    assert is_running(agent) is not ends


def test_a_rank_that_waits_for_ranks_that_have_ended_ends_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: Any
) -> None:
    monkeypatch.setenv(WORD, str(tmp_path))
    monkeypatch.setattr(ending, "VAIN", 0.0)
    monkeypatch.setattr(ending, "LINGER", 0.0)  # nobody reads what this node says
    (tmp_path / "joining-0").touch()
    agent, look = running(count=3, restarts=1)
    agent._multinode.good = {1}

    with pytest.raises(SystemExit):
        look(agent._worker_group)

    assert "rank 0 waits in init_process_group for the ranks of node 1" in LAST[0]


@pytest.mark.parametrize(("code", "ends"), [(138, 138), (3, 1)])
def test_what_time_mends_has_its_code_on_all_nodes(
    code: int, ends: int, boards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a directory that another job has: an operator starts such a pod again, and none that ends with 1."""
    monkeypatch.setattr(ending, "LINGER", 0.05)
    other, mine = (make_agent(known=boards(dist.HashStore(), 0)) for _ in range(2))
    other._multinode.failed = {1: {"rank": 1, "code": code, "order": 1}}
    with pytest.raises(SystemExit) as ended:
        ending.leave(other)
    assert ended.value.code == ends

    failed = api.RunResult(api.WorkerState.FAILED, failures={0: ProcessFailure(0, 7, code, "")})
    run, began = run_to_the_end(lambda _: failed, STOP), time.monotonic()
    if code == ends:
        with pytest.raises(SystemExit) as ended:
            run(mine)
        assert ended.value.code == ends
    else:
        assert run(mine) is failed
    assert time.monotonic() - began >= 0.05, "nobody has read it"


def test_ranks_are_started_again_as_a_whole_and_the_last_line_comes_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, agent = list[int](), make_agent(None, 3)
    (tmp_path / "word").mkdir()
    monkeypatch.setenv(WORD, str(tmp_path / "word"))

    def run(agent: Any) -> Any:
        starts.append(agent._remaining_restarts)
        if len(starts) < 3:
            raise Again
        assert word.leave_last_line("trained as one job of 2 ranks", os.environ)
        return api.RunResult(api.WorkerState.SUCCEEDED)

    assert not run_to_the_end(run, STOP)(agent).is_failed()
    assert starts == [3, 2, 1] and LAST == ["trained as one job of 2 ranks"]
    assert not (tmp_path / "word").exists() and not word.leave_last_line("", os.environ)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let agents be watched as in the image."""
    for name in ("_rendezvous", "_restart_workers", "_exit_barrier", "_invoke_run", "run"):
        monkeypatch.setattr(api.SimpleElasticAgent, name, getattr(api.SimpleElasticAgent, name))
    ending.watch_agents(api)


@pytest.mark.parametrize(("nodes", "left", "attempt"), [(2, False, 1), (2, True, 2), (1, False, 1)])
def test_nodes_that_have_met_agree_on_the_start_of_their_ranks(
    nodes: int, left: bool, attempt: int, watched: None
) -> None:
    port = find_port()
    met = [make_agent(static(number, nodes, port), 3) for number in range(nodes)]
    met[0]._remaining_restarts = met[-1]._remaining_restarts = 2

    def meet() -> None:
        with ThreadPoolExecutor() as threads:
            for end in [threads.submit(agent._rendezvous, agent.get_worker_group()) for agent in met]:
                end.result(SECONDS)

    if left:
        first = dist.TCPStore("127.0.0.1", port, None, True, wait_for_workers=False, multi_tenant=True)
        dist.PrefixStore("job", first).add(f"{board.place_of(1)}/{RESTARTS}", 1)
    meet()

    assert [ending.MET, os.environ[ending.START]] == [[nodes] * nodes, str(attempt)]
    assert {agent._remaining_restarts for agent in met} == {3 - attempt}
    known = [agent._multinode for agent in met]
    assert [one and (one.number, one.count, one.place) for one in known] == (
        [(number, 2, f"{PREFIX}/{attempt}") for number in range(2)] if nodes == 2 else [None]
    )
    meet()
    assert nodes == 1 or all(one.closed for one in known)
    for agent in met:
        ending.close(agent)


def test_others_are_told_before_ranks_start_again(watched: None, running: Any) -> None:
    agent, _ = running(restarts=1)
    (before,), told, stop = agent._pcontext.pids().values(), list[bool](), agent._stop_workers
    agent._multinode.closed = False

    def look_and_stop(*words: Any, **options: Any) -> None:
        told.append(agent._multinode.count_up(RESTARTS, 0) == 1)
        stop(*words, **options)

    agent._stop_workers = look_and_stop
    agent._restart_workers(agent.get_worker_group())

    assert told == [True] and is_running(agent) and before not in agent._pcontext.pids().values()


def test_a_signal_is_told_the_others(watched: None, boards: Any) -> None:
    port = find_port()
    mine, other = (make_agent(static(number, 2, port)) for number in range(2))

    def end(_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    def come_and_read_nothing() -> None:
        other._rendezvous(other.get_worker_group())
        ending.close(other)

    mine._monitor_workers = end
    with ThreadPoolExecutor() as threads:
        come = threads.submit(come_and_read_nothing)
        with pytest.raises(STOP):
            mine.run()
        come.result(SECONDS)

    ending.close(mine)
    read = boards(other._store, 1, 2)
    await_until(lambda: read.failed)
    assert read.failed[0]["code"] == 128 + signal.SIGTERM
    assert LAST[0].endswith("was told to end, by signal 15")
