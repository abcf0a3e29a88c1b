"""Which rank of a job failed first, and which waits in vain, by what a node has read of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multinode_image.hooks.ends import board, ending
from multinode_image.hooks.ends.board import Board
from multinode_image.hooks.ends.ending import describe_failure, find_vain_wait
from multinode_image.hooks.job.word import WORD


def read(number: int, count: int) -> Board:
    """Return what a node has read of some, whose store is not there."""
    known = Board(None, number, count, 0)
    known.closed = True
    return known


def test_a_node_that_has_never_given_a_sign_is_waited_for() -> None:
    """It may have no thread, for a limit of its container."""
    mine = read(0, 2)
    assert (mine.list_silent(), mine.list_missing()) == ([], [1])


def test_a_node_is_silent_for_as_long_as_the_store_has_answered() -> None:
    mine = read(0, 2)
    mine.signs[1] = 1, mine.heard - board.SILENT - 5
    assert mine.list_silent() == [1]
    mine.heard -= 10
    assert mine.list_silent() == []


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
    mine = read(0, 2)
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
    mine = read(0, 3)
    for node in silent:
        mine.signs[node] = 0, 0.001
    assert describe_failure(mine).startswith(f"the job has failed: {says}")


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
def test_a_rank_waits_in_vain_for_ranks_that_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: set[int], words: dict[str, str], says: str
) -> None:
    monkeypatch.setenv(WORD, str(tmp_path))
    monkeypatch.setattr(ending, "VAIN", 0.0)
    for name, text in words.items():
        (tmp_path / name).write_text(text)
    mine = read(0, 3)
    mine.good = good

    said = find_vain_wait(mine, 2)

    assert says in said and bool(said) is bool(says)


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
    known = read(number, 2)
    known.failed = {1: {"order": 1, **record}}

    text = describe_failure(known)

    assert said in text and text.endswith("; the log of that node says why") is (number == 0 and "rank" in record)
    assert [ending.name_nodes(nodes) for nodes in ([1], [0, 2])] == ["node 1", "nodes 0, 2"]
