"""Environments that are handed on, and what is taken away again."""

from __future__ import annotations

from multinode_image.settings import Setting, forget, prepare

WANTED = [Setting("OMP_NUM_THREADS", "2", "cores"), Setting("LD_PRELOAD", "/lib/a.so:/lib/b.so", "libraries")]


def test_what_an_outer_entrypoint_set_is_forgotten_unless_changed() -> None:
    outer = prepare({"HOME": "/h"}, [], WANTED).environ
    assert forget(outer) == {"HOME": "/h"}
    assert forget({**outer, "OMP_NUM_THREADS": "1"}) == {"HOME": "/h", "OMP_NUM_THREADS": "1"}


def test_what_was_set_over_something_comes_back() -> None:
    moved = [Setting("HF_HOME", "/tmp/h", "cannot be written")]
    outer = prepare({"HF_HOME": "/workspace", "LD_PRELOAD": ""}, moved, []).environ
    assert outer["HF_HOME"] == "/tmp/h"
    assert forget(outer) == {"HF_HOME": "/workspace", "LD_PRELOAD": ""}
    assert forget({**outer, "HF_HOME": "/mine"})["HF_HOME"] == "/mine"


def test_a_value_with_a_semicolon_takes_nothing_of_the_users_away() -> None:
    """It must not be taken for the next pair of the list."""
    outer = prepare({"MINE": "1", "OURS": "100%;b"}, [Setting("OURS", "a;MINE=1", "")], []).environ
    assert outer["OURS"] == "a;MINE=1"
    assert forget(outer) == {"MINE": "1", "OURS": "100%;b"}
