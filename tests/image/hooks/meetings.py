"""Where groups meet: who serves a store, and what ranks that form a group again, or are started again, find there."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed import distributed_c10d

from multinode_image.hooks.ends import ending
from multinode_image.hooks.groups import meeting
from multinode_image.hooks.groups.meeting import ask_neighbour, check, separate_groups, watch_stores
from multinode_image.hooks.job import one_job
from multinode_image.hooks.job.one_job import MEMBER
from multinode_image.hooks.job.place import AGENT, Job
from multinode_image.settings import APART, SIZE, TRAINING

RENDEZVOUS: Any = sys.modules["torch.distributed.rendezvous"]  # the package has a function of this name
JOB = Job(2, 3, "127.0.0.1", 29500, "0")  # of the last rank, whose neighbour is the first one
TIME = timedelta(seconds=20)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Be rank 1 of two, of which /proc shows nothing, beside the store of its agent; what hooks change goes back."""
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    monkeypatch.setattr("multinode_image.hooks.job.place.PROC", tmp_path)
    monkeypatch.setattr(RENDEZVOUS, "_create_c10d_store", RENDEZVOUS._create_c10d_store)
    for name in (APART, MEMBER, ending.START):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    place = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2", TRAINING: str(os.getpid()), AGENT: "True",
             "TORCHELASTIC_RESTART_COUNT": "0",
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}  # fmt: skip
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    return store


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def is_served(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("rank", "size", "elsewhere", "of_agent"),
    [
        pytest.param(1, 2, False, True, id="at the agent"),
        pytest.param(1, 2, True, True, id="a script that names another place for its rank"),
        pytest.param(0, 1, True, False, id="a group of another kind"),
    ],
)
def test_a_store_elsewhere_is_served_and_ranks_meet_at_the_agent(
    rank: int, size: int, elsewhere: bool, of_agent: bool, server: Any
) -> None:
    watch_stores(RENDEZVOUS)
    port, before = find_port() if elsewhere else server.port, server.num_keys()

    store = RENDEZVOUS._create_c10d_store("127.0.0.1", port, rank, size, TIME)
    store.set("here", "1")

    assert (server.num_keys() > before) is of_agent
    assert is_served(port) is not (elsewhere and of_agent)
    assert os.environ[AGENT] == "True" and (os.environ.get(MEMBER) == str(os.getpid())) is (size == 2)


def test_groups_of_all_ranks_meet_again_where_others_have_before(server: Any, run_ranks: Any) -> None:
    """The agent's store outlives groups, and under the static rendezvous the starts of ranks: each has its own keys."""
    form, meet = distributed_c10d.init_process_group, distributed_c10d.rendezvous

    def act() -> list[bool]:
        fresh, rank = list[bool](), dist.get_rank()
        os.environ.update({"RANK": str(rank), TRAINING: str(os.getpid())})
        for start in ("0", "2"):
            os.environ[ending.START] = start
            distributed_c10d.init_process_group, distributed_c10d.rendezvous = form, meet
            separate_groups(distributed_c10d)
            for _ in range(2):
                dist.destroy_process_group()
                distributed_c10d.init_process_group("gloo", timeout=timedelta(seconds=20))
                store = distributed_c10d._get_default_store()
                fresh.append(not store.check([f"seen/{rank}"]))
                store.set(f"seen/{rank}", "1")
                dist.barrier()
                if rank == 0:  # alone, and so in no group that counts
                    dist.destroy_process_group()
                    distributed_c10d.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        return fresh

    assert [rank.result for rank in run_ranks(act)[0]] == [[True] * 4] * 2


def store_of(*said: str) -> Any:
    """Return a store in which the next rank has said where it meets, or nothing."""
    store = dist.HashStore()
    for text in said:
        store.set("multinode/0/meets/0", text)
    return store


@pytest.mark.parametrize(
    ("meets", "said", "ends"),
    [
        pytest.param("localhost:12355", ["pod0, localhost:12355"], True, id="the same address on each node"),
        pytest.param("10.0.0.2:4711", ["10.0.0.1:4711"], True, id="an address of each node"),
        pytest.param("10.0.0.1:23456", ["10.0.0.1:23456"], False, id="one address"),
        pytest.param("localhost:12355", [], False, id="this rank alone"),
    ],
)
def test_two_groups_are_ended_and_one_is_not(
    meets: str, said: list[str], ends: bool, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(*said)
    monkeypatch.setattr(one_job, "TOLD", [])
    monkeypatch.setattr("socket.gethostname", lambda: "pod1")
    monkeypatch.setattr(meeting, "connect", lambda host, port: store)
    monkeypatch.setattr(meeting, "SECONDS", 0.0)
    monkeypatch.setenv(TRAINING, str(os.getppid()))

    if not ends:
        check(meets, JOB)
        return
    with pytest.raises(SystemExit):
        check(meets, JOB)
    mine = f"pod1, {meets}" if meets.startswith("localhost") else meets
    assert one_job.TOLD[0].value == f"those of rank 2 meet at {mine}, and those of rank 0 at {said[0]}"


def test_a_rank_that_comes_later_is_waited_for() -> None:
    store = store_of()
    comes: Callable[[float], None] = lambda _: store.set("multinode/0/meets/0", "there")  # noqa: E731

    assert ask_neighbour(store, JOB, "here", comes) == "there"
    assert store.get("multinode/0/meets/2") == b"here"
