"""What rank 0 says of its job at its end, and how a process leaves its group."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch.distributed as dist
from accelerate.state import PartialState
from torch.distributed import distributed_c10d

from multinode_image.hooks import at_exit
from multinode_image.hooks.ends import ending
from multinode_image.hooks.job import one_job
from multinode_image.hooks.model import one_model
from multinode_image.hooks.step import gradients
from multinode_image.settings import APART, TRAINING

RANK_0 = {"RANK": "0", "WORLD_SIZE": "2", TRAINING: "7"}
BY_ITSELF = "each of the 2 ranks has worked by itself"
ONE = "worked as a group of 2 ranks, in which no optimizer has made a step"


@pytest.fixture(autouse=True)
def meeting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranks meet by variables, of whom nothing is known."""
    monkeypatch.setattr(one_model, "KNOWN", [])
    monkeypatch.setattr(PartialState, "_shared_state", {})
    for name in (*one_job.RANKS, *one_job.SIZES, TRAINING):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))


def stay() -> None:
    """Keep the group."""


def leave() -> None:
    dist.destroy_process_group()


def never_meet() -> None:
    """Have had no group."""
    dist.destroy_process_group()
    vars(distributed_c10d)["_default_pg_init_method"] = None


def use_rpc() -> None:
    """Have met by torch.distributed.rpc."""
    never_meet()
    one_model.know().rpc = True


def find_accelerate() -> None:
    """Let accelerate take the group."""
    rank, size = str(dist.get_rank()), str(dist.get_world_size())
    os.environ.update({"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size})
    PartialState(cpu=True)


def pass_by_accelerate() -> None:
    """Let accelerate find no group, as where no variable tells of one."""
    PartialState(cpu=False)


@pytest.mark.parametrize(
    ("size", "method", "act", "environ", "said"),
    [
        pytest.param(2, "env://", stay, RANK_0, ONE, id="one job"),
        pytest.param(2, "env://", leave, RANK_0, ONE, id="has destroyed its group"),
        pytest.param(2, "env://", find_accelerate, RANK_0, ONE, id="by the Trainer"),
        pytest.param(2, "env://", pass_by_accelerate, RANK_0, BY_ITSELF, id="the Trainer did not use the group"),
        pytest.param(1, "", never_meet, RANK_0, BY_ITSELF, id="no group"),
        pytest.param(1, "", use_rpc, RANK_0, "2 ranks met by torch.distributed.rpc", id="torch.distributed.rpc"),
        pytest.param(1, "", never_meet, {**RANK_0, TRAINING: "6"}, "", id="a process of the rank"),
        pytest.param(2, "", leave, RANK_0, "", id="a group made in another way, and destroyed"),
        pytest.param(3, "", stay, RANK_0, "worked as a group of 3 ranks", id="as torch counts them"),
        pytest.param(2, "env://", stay, {**RANK_0, "RANK": "1"}, "", id="another rank"),
        pytest.param(1, "env://", stay, {**RANK_0, "WORLD_SIZE": "1"}, "", id="alone"),
        pytest.param(1, "", never_meet, {TRAINING: "7"}, "", id="no rank, as torchrun's agent"),
        pytest.param(1, "", never_meet, {**RANK_0, APART: "1"}, "", id="apart on purpose"),
    ],
)
def test_rank_0_says_whether_its_job_was_one(
    size: int, method: str, act: Callable[[], None], environ: dict[str, str], said: str, run_ranks: Any
) -> None:
    def end() -> str:
        act()
        return at_exit.describe_job(sys.modules, environ, 7)

    for rank in run_ranks(end, size=size, method=method)[0]:
        assert rank.result.startswith(said) and bool(rank.result) == bool(said)


@pytest.mark.parametrize(("waited", "said"), [(None, ""), (19, ""), (21, ", waiting for gradients 21% of the time")])
def test_rank_0_says_how_long_it_has_waited(
    waited: int | None, said: str, monkeypatch: pytest.MonkeyPatch, run_ranks: Any
) -> None:
    def end() -> str:
        gradients.SEEN.waited = waited
        monkeypatch.setattr(time, "monotonic", lambda: at_exit.BEGAN + 100)
        return at_exit.describe_job(sys.modules, RANK_0, 7)

    assert {rank.result for rank in run_ranks(end, method="env://")[0]} == {ONE + said}


@pytest.mark.parametrize(("act", "rests"), [(stay, 1), (leave, 0)])
def test_the_thread_of_a_group_has_time_to_drop_its_last_work(
    act: Callable[[], None], rests: int, monkeypatch: pytest.MonkeyPatch, run_ranks: Any
) -> None:
    def end() -> list[float]:
        act()
        slept = list[float]()
        monkeypatch.setattr(time, "sleep", slept.append)
        monkeypatch.delattr(sys, "last_value", raising=False)
        at_exit.end({at_exit.DISTRIBUTED: distributed_c10d}, {})
        return slept

    slept = run_ranks(end, size=1)[0][0].result
    assert len(slept) == rests and all(0.1 <= seconds <= 1 for seconds in slept)


LATE = "; 1 of them had not ended 0.2 s later"


@pytest.mark.parametrize(
    ("leaves", "said"),
    [
        pytest.param(None, ("", ending.UNKNOWN), id="both have ended"),
        pytest.param(1, (LATE, ending.UNKNOWN), id="rank 1 has destroyed its group"),
        pytest.param(0, (ending.UNKNOWN, ending.UNKNOWN), id="rank 0 has"),
    ],
)
def test_rank_0_without_an_agent_says_what_it_does_not_know_of_the_others(
    leaves: int | None, said: tuple[str, str], run_ranks: Any
) -> None:
    def end() -> str:
        if dist.get_rank() == leaves:
            dist.destroy_process_group()
        return ending.describe_others(distributed_c10d, 0.2 if leaves == 1 else 20)

    assert tuple(rank.result for rank in run_ranks(end)[0]) == said
