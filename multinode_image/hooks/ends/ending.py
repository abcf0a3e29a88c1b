"""Make the end of each node known to all nodes of a job, in the agent of torchrun.

An agent whose ranks have ended well waits 300 s for the others inside torch, where no signal reaches it, and ends with
0 whatever has become of them (torch/distributed/elastic/agent/server/api.py, _exit_barrier). Here each agent writes
into the job's store how its node has ended, and a thread with a connection of its own reads what the others have
written. So a node ends well only once all others have; where one has failed, or is not heard of any more, all end with
an error, which names the rank that failed first; and the main thread sleeps in Python, where a signal reaches it.

A node that starts its ranks again makes the others start theirs again, too, those that have ended well included: ranks
meet as a whole. While ranks run, a failure elsewhere ends them only where this agent may not start them again.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

from multinode_image.errors import LATER
from multinode_image.hooks.ends.board import (
    DONE,
    ENDED,
    GOOD,
    PREFIX,
    READ,
    RESTARTS,
    SILENT,
    Board,
    Unreachable,
    find_attempt,
)
from multinode_image.hooks.ends.diagnose import choose_first
from multinode_image.hooks.job.reason import read_reason
from multinode_image.hooks.job.word import IDLE, JOINING, list_words, offer_place, take_last_line

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK = 0.2  # seconds between two looks of the main thread
VAIN = 5.0  # seconds until a rank that waits for ranks that have ended waits in vain
PATIENCE = 30.0  # seconds until a node says what it waits for
LINGER = 5.0  # seconds for which a node that has failed waits until the others have read it: it may keep the store
REST = 1.0  # seconds for the others to read that all have ended well, before the store may be gone
CLOSING = 10  # seconds that ranks have to end once another node has failed
LOST = "has lost another rank"  # in what a rank says that ended because another one did
PATIENCE_OF_RANK_0 = 10.0  # seconds for which rank 0 waits for the others where no agent does
UNKNOWN = "; how the others end is known to what started them"
# Says to the ranks which start of theirs this is, where each start has the same store.
START = "MULTINODE_START"
# The nodes of each start of the ranks of this agent.
MET: list[int] = []
# What this agent prints last (at_exit.py).
LAST: list[str] = []


class Again(Exception):
    """Another node starts its ranks again."""


def watch_agents(module: Any) -> None:
    """Let agents know of each other's ends; module: torch.distributed.elastic.agent.server.api."""
    kind = module.SimpleElasticAgent
    stop = getattr(module, "SignalException", KeyboardInterrupt)
    kind._rendezvous = meet_and_watch(kind._rendezvous)
    kind._restart_workers = say_and_restart(kind._restart_workers)
    kind._exit_barrier = wait_for_others
    kind._invoke_run = run_to_the_end(kind._invoke_run, stop)
    kind.run = linger_after(kind.run, stop)


def meet_and_watch(meet: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rendezvous of an agent, after which it reads what the nodes of this start write."""

    @functools.wraps(meet)
    def run(agent: Any, group: Any) -> Any:
        offer_place(os.environ)
        close(agent)
        result = meet(agent, group)
        MET.append(group.group_world_size)
        agent._multinode = None
        with contextlib.suppress(Exception):  # an agent of another release may have other names
            attempt = number_start(agent, group.spec) if is_static(group) else 0
            os.environ[START] = str(attempt)
            if group.group_world_size > 1:
                agent._multinode = Board(agent._store, group.group_rank, group.group_world_size, attempt)
        return result

    return run


def number_start(agent: Any, spec: Any) -> int:
    """Return which start of the ranks this is for all nodes, and let the agent count so.

    A rendezvous that nodes may join has a store for each round. The static one has the same for all starts.
    """
    attempt = find_attempt(agent._store, spec.max_restarts - agent._remaining_restarts)
    agent._remaining_restarts = spec.max_restarts - attempt
    return attempt


def is_static(group: Any) -> bool:
    """Return whether no other node may join, so that torchrun does not start all ranks again for one."""
    return bool(group.spec.rdzv_handler.get_backend() == "static")


def count_ended(distributed: Any) -> Any:
    """Say in the job's store that this rank has ended well, and return what counts those; None without a store.

    A rank whose group was destroyed has none any more.
    """
    if not distributed.is_initialized():
        return None
    store = distributed._get_default_store()
    store.add(f"{PREFIX}/{ENDED}", 1)
    return lambda: int(store.add(f"{PREFIX}/{ENDED}", 0))


def describe_others(distributed: Any, seconds: float = PATIENCE_OF_RANK_0) -> str:
    """Say that this rank has ended well, and wait for the others; return what is not known of them, on rank 0."""
    try:
        count = count_ended(distributed)
        if count is None or distributed.get_rank() != 0:
            return UNKNOWN
        size, until = distributed.get_world_size(), time.monotonic() + seconds
        while (ended := count()) < size and time.monotonic() < until:
            time.sleep(LOOK)
        return "" if ended >= size else f"; {size - ended} of them had not ended {seconds:g} s later"
    except Exception:  # the store of rank 0, on another one; or of a kind that cannot count
        return UNKNOWN


def close(agent: Any) -> None:
    """End the thread that reads, after its present look."""
    board = getattr(agent, "_multinode", None)
    if board is not None:
        board.closed = True


def say_and_restart(restart: Callable[..., Any]) -> Callable[..., Any]:
    """Return the restart of an agent's ranks, which the others are told of before."""

    @functools.wraps(restart)
    def run(agent: Any, group: Any) -> Any:
        board = getattr(agent, "_multinode", None)
        if board is not None:
            board.say(RESTARTS)
        return restart(agent, group)

    return run


def run_to_the_end(run: Callable[..., Any], stop: type[BaseException]) -> Callable[..., Any]:
    """Return what runs the ranks of an agent, until its job has ended; stop: what a signal raises."""

    @functools.wraps(run)
    def run_until_all_end(agent: Any, *words: Any, **options: Any) -> Any:
        agent._monitor_workers = watch_others(agent, agent._monitor_workers)
        while True:
            try:
                result = run(agent, *words, **options)
            except Again:
                agent._remaining_restarts = max(0, agent._remaining_restarts - 1)  # as the node that had to
                continue
            except stop as error:
                tell_failure(agent, {"code": 128 + int(getattr(error, "sigval", signal.SIGTERM))})
                raise
            if result.is_failed():
                failure = describe(result.failures)
                tell_failure(agent, failure)
                linger(agent)
                if failure.get("code") == LATER:  # torchrun would end with 1, as for what time does not mend
                    close(agent)
                    sys.exit(LATER)
            else:
                LAST[:] = take_last_line(os.environ)
            close(agent)
            return result

    return run_until_all_end


def linger_after(run: Callable[..., Any], stop: type[BaseException]) -> Callable[..., Any]:
    """Return the whole run of an agent, which keeps the store for a moment after a signal has ended its ranks."""

    @functools.wraps(run)
    def run_and_linger(agent: Any, *words: Any, **options: Any) -> Any:
        try:
            return run(agent, *words, **options)
        except stop:
            linger(agent)
            raise

    return run_and_linger


def watch_others(agent: Any, monitor: Callable[..., Any]) -> Callable[..., Any]:
    """Return what looks after the ranks of an agent, which ends them where another node has failed for good."""

    def look(group: Any) -> Any:
        result = monitor(group)
        board = getattr(agent, "_multinode", None)
        if board is None or str(getattr(result.state, "name", "")) != "HEALTHY":
            return result
        again = board.over and is_static(group)
        waits = "" if again else find_vain_wait(board, len(group.workers))
        if waits or again or (board.failed and agent._remaining_restarts <= 0):
            with contextlib.suppress(Exception):
                agent._pcontext.close(signal.SIGTERM, timeout=CLOSING)
            if again:
                raise Again
            if waits:
                board.fail({"code": 1, "host": socket.gethostname(), "waits": waits})
                linger(agent)
            leave(agent)
        return result

    return look


def find_vain_wait(board: Board, ranks: int) -> str:
    """Return who waits for ranks that have ended, in words; empty where that is not certain.

    A group forms of all ranks. Of other waits nobody knows for whom they are: they are in vain where all other nodes
    have ended, and each of the ranks of this one, of which there are so many, waits or has ended.
    """
    where = find_vain_place(board, ranks) if board.good else ""
    if not where:
        board.vain = 0.0
        return ""
    board.vain = board.vain or time.monotonic()
    if time.monotonic() - board.vain < VAIN:
        return ""
    return f"{where} for the ranks of {name_nodes(sorted(board.good))}, which have ended"


def find_vain_place(board: Board, ranks: int) -> str:
    """Return which rank waits where, for ranks that have ended; empty where that is not so."""
    joining = next(iter(list_words(os.environ, JOINING)), "")
    if joining:
        return f"rank {joining} waits in init_process_group"
    idle = list_words(os.environ, IDLE)
    waiting = next((f"rank {rank} waits {place}" for rank, place in idle.items() if place.startswith("at ")), "")
    return waiting if len(idle) >= ranks and not board.list_missing() else ""


def wait_for_others(agent: Any) -> None:
    """Wait until all other nodes have ended well; in the place of torch's, which waits for any end.

    Raise Again where one starts its ranks again, SystemExit where one has failed.
    """
    board = getattr(agent, "_multinode", None)
    if board is None:
        return
    board.say(f"{GOOD}/{board.number}")
    began, told = time.monotonic(), False
    while missing := board.list_missing():
        if board.over:
            raise Again
        if board.failed or board.gone or board.list_silent():
            leave(agent)
        if not board.thread.is_alive():  # a limit allowed none
            with contextlib.suppress(Unreachable):
                board.look()
        if not told and time.monotonic() - began > PATIENCE:
            told = True
            print_line(f"the ranks of this node have ended well; it waits for {name_nodes(missing)}, which train on")
        time.sleep(LOOK)
    if board.failed:
        leave(agent)
    part(board)


def part(board: Board) -> None:
    """Leave after all have read that all have ended well: one of them keeps the store. Node 0 says when."""
    board.closed = True
    until = time.monotonic() + LINGER
    with contextlib.suppress(Unreachable):  # who keeps the store has left
        board.count_up(READ)
        while time.monotonic() < until:
            if board.number == 0 and board.count_up(READ, 0) >= board.count:
                board.count_up(DONE)
                time.sleep(REST)  # what is asked now may find no store any more
                return
            if board.number and board.count_up(DONE, 0):
                return
            time.sleep(LOOK)


def tell_failure(agent: Any, record: dict[str, Any]) -> None:
    """Tell all nodes that this one has failed, and say at its end which rank of the job failed first."""
    board = getattr(agent, "_multinode", None)
    if board is not None:
        board.fail({**record, "host": socket.gethostname()})
        LAST[:] = [describe_failure(board)]


def linger(agent: Any) -> None:
    """Wait until the others have read that this node has failed, and say which rank was the first one."""
    board = getattr(agent, "_multinode", None)
    if board is None:
        return
    until = time.monotonic() + LINGER
    with contextlib.suppress(Unreachable):
        while time.monotonic() < until and len(board.failed) < board.count:
            if board.count_up(f"{READ}/{board.number}", 0) >= board.count - 1:
                break
            time.sleep(LOOK)
    LAST[:] = [describe_failure(board)]


def describe(failures: Any) -> dict[str, Any]:
    """Return which rank of this node failed first: its number, its code, and whether it only lost another one."""
    if not failures:
        return {}
    rank = choose_first(failures)
    reason = read_reason(failures[rank])
    return {"rank": rank, "code": int(failures[rank].exitcode), "lost": bool(reason and LOST in reason[0])}


def leave(agent: Any) -> NoReturn:
    """End this agent with an error, for another node has."""
    board = agent._multinode
    LAST[:] = [describe_failure(board)]
    first = find_first_failure(board)
    close(agent)
    sys.exit(LATER if first is not None and first[1].get("code") == LATER else 1)


def find_first_failure(board: Board) -> tuple[int, dict[str, Any]] | None:
    """Return which node has failed first, and what it has written; one that has lost another rank is no cause."""
    failed = board.failed.items()
    return min(failed, key=lambda item: (bool(item[1].get("lost")), item[1]["order"]), default=None)


def describe_failure(board: Board) -> str:
    """Return which rank of the job failed first, as far as that is known here."""
    first = find_first_failure(board)
    if first is None:
        nodes = board.list_silent() or board.list_missing()
        why = f"nothing was heard of {name_nodes(nodes)} for {SILENT:g} s" if not board.gone else "its store is gone"
        return f"the job has failed: {why}, so {name_nodes(nodes)} has ended without a word, or the network is cut"
    node, record = first
    code, place = int(record.get("code", 1)), f"node {node} ({record.get('host', '')})"
    if record.get("waits"):
        return f"the job has failed: {record['waits']}"
    if record.get("rank") is None:
        return f"the job has failed: {place} was told to end, by signal {code - 128}"
    ended = f"code {code}" if code >= 0 else f"signal {-code} ({name_signal(-code)})"
    elsewhere = "" if node == board.number else "; the log of that node says why"
    return f"the job has failed: rank {record['rank']} on {place} failed first, with {ended}{elsewhere}"


def name_signal(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def name_nodes(nodes: list[int]) -> str:
    """Return nodes in words."""
    return f"node{'s' * (len(nodes) != 1)} {', '.join(map(str, nodes))}"


def print_line(text: str) -> None:
    """Print a line of ours."""
    with contextlib.suppress(Exception):  # a stream may be closed
        print(f"multinode: {text}", file=sys.stderr, flush=True)
