"""Which process trains apart from its job, what its groups have exchanged, and ranks that meet those of another job."""

from __future__ import annotations

import io
import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from accelerate.state import PartialState
from torch.distributed import distributed_c10d, rpc
from torch.distributed.elastic.agent.server import WorkerSpec, api
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from multinode_image.hooks.groups import same_job, waits
from multinode_image.hooks.groups.same_job import KEY, WORDS, compare, watch_agents, watch_rendezvous
from multinode_image.hooks.job import one_job
from multinode_image.hooks.job.one_job import find_fault
from multinode_image.hooks.job.place import AGENT, Job, count_exchanges
from multinode_image.settings import APART, SIZE

RANK = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2"}
OF_AGENT = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "pod1", "MASTER_PORT": "29500", AGENT: "True"}


def know_one() -> None:
    """Let accelerate look for a job where no variable tells of one."""
    PartialState(cpu=False)


def know_all() -> None:
    rank, size = str(dist.get_rank()), str(dist.get_world_size())
    os.environ.update({"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size})
    PartialState(cpu=True)


def nothing() -> None:
    """Leave all as it is."""


@pytest.fixture(autouse=True)
def none_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin as a process that no launcher has started, and of which nothing has been said."""
    monkeypatch.setattr(one_job, "TOLD", [])
    monkeypatch.setattr(PartialState, "_shared_state", {})
    for name in (*one_job.RANKS, *one_job.SIZES, "LOCAL_RANK", SIZE, AGENT, WORDS):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("size", "accelerate", "environ", "value", "remedy"),
    [
        pytest.param(0, nothing, RANK, "rank 1, in no process group", "init_process_group", id="no group"),
        pytest.param(1, nothing, RANK, "rank 1, in a group of 1", "init_process_group", id="each a group"),
        pytest.param(
            2, nothing, {**RANK, "WORLD_SIZE": "4"}, "rank 1, in a group of 2", "init_process", id="each node"
        ),
        pytest.param(2, know_one, RANK, "rank 1, in a group of 1", "ACCELERATE_USE_CPU", id="accelerate"),
        pytest.param(0, know_one, {SIZE: "2"}, "no rank", "multinode SCRIPT.py", id="no rank"),
        pytest.param(2, nothing, RANK, "", "", id="one job"),
        pytest.param(2, know_all, RANK, "", "", id="one job of accelerate"),
        pytest.param(2, nothing, {SIZE: "2"}, "", "", id="a script that has found its place itself"),
        pytest.param(0, know_one, {}, "", "", id="alone"),
        pytest.param(0, nothing, {**RANK, APART: "1"}, "", "", id="apart on purpose"),
    ],
)
def test_a_process_apart_is_told_what_its_library_needs(
    size: int, accelerate: Callable[[], None], environ: dict[str, str], value: str, remedy: str, run_ranks: Any
) -> None:
    def act() -> Any:
        if not size:
            dist.destroy_process_group()
        accelerate()
        return find_fault(sys.modules, environ)

    for rank in run_ranks(act, size=size or 1)[0]:
        assert (rank.result is None) is (not value)
        assert rank.result is None or (rank.result.value.startswith(value) and remedy in rank.result.remedy)


def exchange() -> None:
    dist.all_reduce(torch.ones(1))


def part() -> None:
    dist.new_group([0])
    exchange()


def not_count() -> None:
    """Have a group that counts nothing, as those of MPI."""
    dist.ProcessGroup._get_sequence_number_for_group = mock.Mock(side_effect=RuntimeError)


def leave() -> None:
    dist.destroy_process_group()


def meet_by_rpc() -> None:
    dist.destroy_process_group()
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"})
    rpc.init_rpc("only", rank=0, world_size=1)


@pytest.mark.parametrize(
    ("act", "more"),
    [(exchange, 1), (part, 1), (nothing, 0), (not_count, None), (leave, 0), (meet_by_rpc, None)],
)
def test_groups_are_asked_what_they_have_exchanged(act: Callable[[], None], more: int | None, run_ranks: Any) -> None:
    def count() -> tuple[int | None, int | None]:
        before = count_exchanges(sys.modules)
        act()
        return before if dist.is_initialized() else 0, count_exchanges(sys.modules)

    before, after = run_ranks(count, size=1)[0][0].result
    assert after == (None if more is None else before + more)


ALPHA, BETA, COPY = (
    "11111111 train.py --corpus alpha",
    "22222222 train.py --corpus beta",
    "33333333 train.py --corpus beta",
)


def store_of(words: str) -> Any:
    """Return a store in which rank 0 has left what it was asked for, or nothing."""
    store = dist.HashStore()
    if words:
        store.set(KEY, words)
    return store


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
def test_a_node_of_another_job_ends(there: str, mine: str, ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_job, "SECONDS", timedelta(milliseconds=50))

    fault = compare(store_of(there), 1, 2, {WORDS: mine, "PET_NNODES": "2"})

    assert (fault is not None) == ends
    assert fault is None or "another PET_MASTER_PORT" in fault.remedy
    assert fault is None or ("a file of that name differs" in fault.value) == (there == COPY)


@pytest.mark.parametrize(("size", "left"), [(2, True), (1, False)])
def test_rank_0_says_what_it_was_asked_for_and_one_alone_nothing(size: int, left: bool) -> None:
    store = dist.HashStore()

    compare(store, 0, size, {WORDS: ALPHA})

    assert store.check([KEY]) is left and (not left or store.get(KEY) == ALPHA.encode())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Be rank 1 of two beside a store of rank 0, which another job has."""
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), WORDS: BETA}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    return store


@pytest.mark.parametrize("is_tuple", [False, True], ids=["a value", "a tuple of older releases"])
def test_an_agent_compares_before_it_counts_as_one_that_has_come(
    is_tuple: bool, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.SimpleElasticAgent, "_rendezvous", api.SimpleElasticAgent._rendezvous)
    watch_agents(api)
    dist.PrefixStore("job", server).set(KEY, ALPHA)
    handler: Any = StaticTCPRendezvous("127.0.0.1", server.port, 1, 2, "job", 30)
    met, meet = handler.next_rendezvous(), handler.next_rendezvous
    if is_tuple:
        handler.next_rendezvous = meet = lambda: (met.store, met.rank, met.world_size)
    agent = LocalElasticAgent(WorkerSpec("default", 1, handler, entrypoint=print), logs_specs=DefaultLogsSpecs())
    known, shown, said = server.num_keys(), io.BytesIO(), list[bytes]()

    def end(code: int) -> None:  # what is not written by then is lost
        said.append(shown.getvalue())
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(shown))
    with pytest.raises(SystemExit):
        agent._rendezvous(agent.get_worker_group())

    assert server.num_keys() == known and handler.next_rendezvous == meet, "nobody has come, the handler is as it was"
    assert b"was asked to train something else" in said[0]


@pytest.mark.parametrize(("agent", "ends"), [("", True), ("True", False)])
def test_ranks_compare_where_no_agent_has(agent: str, ends: bool, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AGENT, agent)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")  # torch 2.4 reads it where there is an agent
    server.set(KEY, ALPHA)
    monkeypatch.setattr(distributed_c10d, "rendezvous", distributed_c10d.rendezvous)
    watch_rendezvous(distributed_c10d)

    if ends:
        with pytest.raises(SystemExit):
            next(distributed_c10d.rendezvous("env://"))
    else:
        assert next(distributed_c10d.rendezvous("env://"))[1:] == (1, 2)


@pytest.mark.parametrize(
    ("method", "act", "told", "job"),
    [
        pytest.param("", nothing, OF_AGENT, Job(1, 4, "pod1", 29500, "3"), id="of an agent"),
        pytest.param("tcp", leave, OF_AGENT, Job(1, 4, "pod1", 29500, "3"), id="of an agent, without a group"),
        pytest.param("tcp", nothing, {}, Job(1, 2, "127.0.0.1", 0, "3"), id="of a group"),
        pytest.param("tcp", leave, {}, None, id="the group is gone"),
        pytest.param("", nothing, {}, None, id="a group by a file"),
    ],
)
def test_ranks_are_found_by_the_store_of_their_agent_or_of_their_group(
    method: str, act: Callable[[], None], told: dict[str, str], job: Job | None, run_ranks: Any
) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]

    def find() -> Any:
        act()
        return waits.find_job({**told, "TORCHELASTIC_RESTART_COUNT": "3"})

    done = run_ranks(find, method=f"tcp://127.0.0.1:{port}" if method else "")[0]

    assert done[1].result == (job._replace(port=job.port or port) if job else None)
