"""Which processes of ranks may form a group of their own, and how those end that may not."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from multinode_image.hooks.groups import meeting
from multinode_image.hooks.groups.meeting import check, is_of_this_node, is_started_by_rank
from multinode_image.hooks.job import one_job
from multinode_image.hooks.job.one_job import MEMBER
from multinode_image.settings import APART, SIZE

AGENT = "TORCHELASTIC_USE_AGENT_STORE"

RANK = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2", "MULTINODE_TRAINING": "7"}


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
