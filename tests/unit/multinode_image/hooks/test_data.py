"""Whether ranks train on the same data: under which keys they compare them, and what they say of a difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from multinode_image.hooks.data import same_data
from multinode_image.hooks.data.same_data import (
    Known,
    compare,
)
from multinode_image.hooks.job.messenger import Message
from multinode_image.hooks.job.place import Job

JOB = Job(0, 2, "pod0", 29500, "0")


class World:
    """Make up the job of this rank: what it sends, what ends it, what it says, and what the other rank says."""

    def __init__(self) -> None:
        self.off = self.is_child = False
        self.job: Job | None = JOB
        self.sent: list[Message] = []
        self.ended: list[Any] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def hear(self, other: Callable[[Any], Any] = lambda value: value) -> None:
        """Let the other rank say of each message what this one says, or something else."""
        for message in self.sent:
            assert message.deliver is not None
            message.deliver([json.dumps(other(json.loads(message.text))).encode()])


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    ranks = World()
    monkeypatch.setattr(same_data, "KNOWN", Known())
    monkeypatch.setattr(same_data, "know", lambda: ranks)
    monkeypatch.setattr(same_data, "find_job", lambda _: ranks.job)
    monkeypatch.setattr(same_data, "end_soon", ranks.ended.append)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.delenv("MULTINODE_APART", raising=False)
    return ranks


def test_each_line_has_keys_of_its_own(world: World) -> None:
    for _ in range(2):
        compare("rows", 1, print)
    compare("rows", 1, print)

    keys = [message.key for message in world.sent]
    assert len(set(keys)) == 3 and keys[0][:-1] == keys[1][:-1] != keys[2][:-1]
    assert world.sent[0].ring[:4] == ("pod0", 29500, "multinode/0/2/data", 0)


def test_what_was_found_before_a_group_is_sent_with_the_next(world: World) -> None:
    world.job = None
    compare("rows", 1, print)
    assert world.sent == []
    world.job = JOB
    compare("batches", 2, print)

    assert [message.key.split("/")[0] for message in world.sent] == ["rows", "batches"]


@pytest.mark.parametrize("name", ["off", "is_child"])
def test_who_is_no_rank_of_several_sends_nothing(name: str, world: World) -> None:
    setattr(world, name, True)
    compare("rows", 1, print)

    assert world.sent == []


@pytest.mark.parametrize(
    ("seen", "others", "rank", "said"),
    [
        pytest.param([1, 2, 3], {1: [1, 2, 3]}, "0", "the first 3 of rank 0 are those of rank 1", id="the same"),
        pytest.param([1, 2, 3], {1: [1, 2, 4]}, "0", "", id="others"),
        pytest.param([1, 1, 1], {1: [1, 1, 1]}, "0", "", id="one batch all the time"),
        pytest.param([1, 2, 3], {0: [1, 2, 3]}, "1", "", id="rank 0 says it"),
    ],
)
def test_ranks_that_take_the_same_batches_are_told_of_the_sampler(
    seen: list[int], others: dict[int, list[int]], rank: str, said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("RANK", rank)

    same_data.judge_batches(seen, others)

    line = capsys.readouterr().err
    assert said in line and ("DistributedSampler" in line) is bool(line) is bool(said)


@pytest.mark.parametrize(
    ("others", "rank", "ends", "said"),
    [
        ({1: [16, 2]}, "0", "", ""),
        ({1: [16, 3]}, "0", "", ""),  # other batches of as many rows are meant
        ({1: [17, 2]}, "0", "", "16 on rank 0 and 17 on rank 1, at a.py:1"),
        ({1: [17, 2]}, "2", "", ""),
        ({1: [17, 2], 2: [1800, 3]}, "0", "16 on rank 0 and 1,800 on rank 2, at a.py:1", ""),
        ({1: [15, 1], 2: [18, 2]}, "3", "16 on rank 3 and 15 on rank 1, at a.py:1", ""),
    ],
)
def test_a_rank_with_other_batches_ends_the_job_and_one_with_other_rows_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], others: dict[int, list[int]],
    rank: str, ends: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("RANK", rank)

    same_data.judge_rows([16, 2], "a.py:1", others)

    assert [fault.value for fault in world.ended] == [ends] * bool(ends)
    err = capsys.readouterr().err
    assert said in err and bool(err) is bool(said)
