"""Where groups meet: who serves a store, and which processes of ranks may form a group of their own."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.ends import ending
from multinode_image.hooks.groups import meeting
from multinode_image.hooks.groups.meeting import (
    ask_neighbour,
    check,
    is_of_this_node,
    is_started_by_rank,
    separate_groups,
    watch_stores,
)
from multinode_image.hooks.job import one_job
from multinode_image.hooks.job.one_job import MEMBER
from multinode_image.hooks.job.place import AGENT, Job
from multinode_image.settings import APART, SIZE

RANK = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2", "MULTINODE_TRAINING": "7"}
JOB = Job(1, 2, "pod0", 29500, "0")


@pytest.fixture(autouse=True)
def place(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a rank of an agent, of which /proc shows nothing."""
    monkeypatch.setattr("multinode_image.hooks.job.place.PROC", tmp_path)
    monkeypatch.setattr(one_job, "TOLD", [])
    monkeypatch.setattr("os.getppid", lambda: 7)
    monkeypatch.setattr("socket.gethostname", lambda: "pod1")
    monkeypatch.setattr("socket.getaddrinfo", lambda host, _: [(0, 0, 0, "", (ADDRESSES[host], 0))])
    for name in (APART, MEMBER):
        monkeypatch.delenv(name, raising=False)
    told = {**RANK, "MASTER_ADDR": "pod0", "MASTER_PORT": "29500", AGENT: "True"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)


ADDRESSES = {"localhost": "127.0.0.1", "pod0": "10.0.0.1", "10.0.0.2": "10.0.0.2", "::1": "::1"}


@pytest.mark.parametrize(("port", "serves"), [(29500, False), (12355, True)])
def test_a_store_elsewhere_is_served(port: int, serves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(APART, "1")
    seen: list[Any] = []
    module = SimpleNamespace(
        _create_c10d_store=lambda *words, **options: seen.append((os.environ.get(AGENT), words, options))
    )
    watch_stores(module)

    module._create_c10d_store("localhost", port, 0, 2, "timeout", use_libuv=True)

    assert seen == [(None if serves else "True", ("localhost", port, 0, 2, "timeout"), {"use_libuv": True})]
    assert os.environ[AGENT] == "True"


@pytest.mark.parametrize(
    ("start", "sizes", "prefixes"),
    [
        ("", [2, 2, 2], ["", "again/0/1", "again/0/2"]),
        ("0", [1, 2, 2], ["", "", "again/0/1"]),
        ("2", [2, 2], ["again/2/0", "again/2/1"]),
    ],
)
def test_groups_of_all_ranks_have_keys_of_their_own(
    start: str, sizes: list[int], prefixes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """start: that of the ranks, which their agent has counted."""
    monkeypatch.setenv(ending.START, start) if start else monkeypatch.delenv(ending.START, raising=False)
    seen: list[str] = []
    module = SimpleNamespace(PrefixStore=lambda prefix, _: prefix, rendezvous=lambda *_, **__: iter([("", 0, 2)]))

    def form() -> None:
        store, rank, size = next(module.rendezvous("env://", timeout=3))
        assert (rank, size) == (0, 2)
        seen.append(store)

    module.init_process_group = form
    separate_groups(module)
    for size in sizes:
        module.get_world_size = lambda size=size: size
        module.init_process_group()

    assert seen == prefixes


@pytest.mark.parametrize(
    ("environ", "pid", "is_one"),
    [
        (RANK, 8, True),
        (RANK, 7, False),  # the rank itself
        ({**RANK, MEMBER: "7"}, 8, False),
        ({**RANK, APART: "1"}, 8, False),
        ({**RANK, SIZE: "1"}, 8, False),
        ({SIZE: "2", "MULTINODE_TRAINING": "on"}, 8, False),
    ],
)
def test_processes_that_ranks_have_started(environ: dict[str, str], pid: int, is_one: bool) -> None:
    assert is_started_by_rank(environ, pid) is is_one


@pytest.mark.parametrize(("host", "here"), [("localhost", True), ("::1", True), ("pod0", False), ("10.0.0.2", False)])
def test_an_address_of_one_node(host: str, here: bool) -> None:
    assert is_of_this_node(host) is here


class Store:
    """What the next rank has said, if anything."""

    def __init__(self, *said: str) -> None:
        self.values = dict(zip(["multinode/0/meets/0"], map(str.encode, said), strict=False))

    def set(self, name: str, text: str) -> None:
        self.values[name] = text.encode()

    def check(self, names: list[str]) -> bool:
        return names[0] in self.values

    def get(self, name: str) -> bytes:
        return self.values[name]


@pytest.mark.parametrize(
    ("meets", "said", "ends"),
    [
        pytest.param("localhost:12355", ["pod0, localhost:12355"], True, id="the same address on each node"),
        pytest.param("10.0.0.2:4711", ["10.0.0.1:4711"], True, id="an address of each node"),
        pytest.param("pod0:23456", ["pod0:23456"], False, id="one address"),
        pytest.param("localhost:12355", [], False, id="this rank alone"),
    ],
)
def test_two_groups_are_ended_and_one_is_not(
    meets: str, said: list[str], ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(*said)
    monkeypatch.setattr(meeting, "connect", lambda host, port: store)
    monkeypatch.setattr(meeting, "SECONDS", 0.0)

    if not ends:
        check(meets, JOB)
        return
    with pytest.raises(SystemExit):
        check(meets, JOB)


@pytest.mark.parametrize(
    ("meets", "rank", "ends"),
    [("localhost:12355", "1", True), ("localhost:12355", "0", False), ("pod0:23456", "1", False)],
)
def test_without_an_agent_a_group_of_one_node_is_ended(
    meets: str, rank: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", rank)

    if not ends:
        check(meets, None)
        return
    with pytest.raises(SystemExit):
        check(meets, None)


def test_a_rank_that_comes_later_is_waited_for() -> None:
    store = Store()

    neighbour = ask_neighbour(store, JOB, "here", lambda _: store.set("multinode/0/meets/0", "there"))

    assert (neighbour, store.values["multinode/0/meets/1"]) == ("there", b"here")


@pytest.mark.parametrize(("parent", "told"), [(7, []), (9, [(7, signal.SIGTERM)])])
def test_a_rank_that_does_not_see_its_process_end_is_ended(
    parent: int, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[Any] = []
    monkeypatch.setattr("os.getppid", lambda: parent)
    monkeypatch.setattr("os.kill", lambda *words: signals.append(words))

    with pytest.raises(SystemExit):
        meeting.end(meeting.describe("1", "localhost:12355", "those of rank 0 at pod0"))

    assert signals == told


def test_a_rank_whose_script_names_another_place_meets_the_others_at_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    module = SimpleNamespace(_create_c10d_store=lambda *words: seen.append((os.environ.get(AGENT), *words)))
    monkeypatch.setattr(meeting, "read_job", lambda _: JOB)
    monkeypatch.setenv("MULTINODE_TRAINING", str(os.getpid()))
    watch_stores(module)

    module._create_c10d_store("localhost", 12355, 1, 2)
    module._create_c10d_store("localhost", 12355, 0, 1)

    assert seen == [("True", "pod0", 29500, 1, 2), (None, "localhost", 12355, 0, 1)]
    assert os.environ[MEMBER] == str(os.getpid())
