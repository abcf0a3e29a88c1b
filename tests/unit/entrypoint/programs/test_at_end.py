"""How a rank ends: what is waited for, and which groups are kept; every thread and group is made up."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from entrypoint.programs.at_end import (
    DISTRIBUTED,
    LIMIT,
    PAUSE,
    Thread,
    groups_of_oneccl,
    is_done,
    keep,
    look_around,
    read_thread,
    settle,
)

ASLEEP, READY = ("S", 7), ("R", 7)


def pauses(*looks: Mapping[str, Thread]) -> int:
    """Settle a process whose threads are seen like this, the last time for ever; return how often it slept."""
    seen: Iterator[Mapping[str, Thread]] = iter(looks)
    last, slept = looks[-1], 0

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += 1

    settle(lambda: next(seen, last), sleep, lambda: slept * PAUSE)
    return slept


@pytest.mark.parametrize(
    ("looks", "slept"),
    [
        pytest.param([{}], 0, id="no thread"),
        pytest.param([{"2": ASLEEP}], 1, id="at rest"),
        pytest.param([{"2": READY}, {"2": ASLEEP}], 2, id="was about to work"),
        pytest.param([{"2": ASLEEP}, {"2": READY}, {"2": ASLEEP}], 3, id="waited for Python's lock"),
        pytest.param([{"2": ASLEEP, "3": READY}, {"2": ASLEEP, "3": ASLEEP}], 2, id="one of two"),
        pytest.param([{"2": READY}, {}], 1, id="has ended"),
        pytest.param([{"2": ASLEEP}, {"2": ASLEEP, "3": READY}], 1, id="began meanwhile"),
        pytest.param([{"2": READY}, {"2": ("R", 8)}, {"2": ("R", 9)}], 2, id="spins"),
    ],
)
def test_the_end_waits_for_threads(looks: Sequence[Mapping[str, Thread]], slept: int) -> None:
    assert pauses(*looks) == slept


def test_a_thread_that_never_gets_a_core_does_not_keep_the_program() -> None:
    assert pauses({"2": READY}) == pytest.approx(LIMIT / PAUSE, abs=1)


@pytest.mark.parametrize("state", ["D", "R", "T"])
def test_only_a_thread_that_slept_twice_is_at_rest(state: str) -> None:
    assert not is_done(ASLEEP, (state, 7), ASLEEP)
    assert not is_done(ASLEEP, ASLEEP, (state, 7))


def test_a_line_of_proc_is_read_whatever_the_thread_is_called() -> None:
    numbers = " ".join(str(number) for number in range(4, 53))

    assert read_thread(f"7 (a) R (b) S {numbers}") == ("S", 14 + 15)


def test_the_threads_of_this_process_are_found_without_the_main_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("task")
    (place / "1").mkdir()
    (place / "1/stat").write_text("1 (x) S " + " ".join(["0"] * 40))
    (place / "2").mkdir()  # it ends while it is read

    assert look_around(str(place)) == {"1": ("S", 0)}
    assert look_around(str(place / "nothing")) == {}


def with_groups(bindings: str, table: Mapping[str, tuple[str, None]], where: str) -> dict[str, Any]:
    """Make up the modules of a program with these process groups, where a release of torch has them."""
    new = {"_world": SimpleNamespace(pg_map=table), "_pg_map": {}}
    distributed = SimpleNamespace(**(new if where == "new" else {"_pg_map": table}))
    return {DISTRIBUTED: distributed, **({bindings: object()} if bindings else {})}


@pytest.mark.parametrize("where", ["new", "old"])
@pytest.mark.parametrize(
    ("bindings", "table", "groups"),
    [
        pytest.param("oneccl_bindings_for_pytorch", {"w": ("ccl", None), "g": ("gloo", None)}, ["w"], id="both"),
        pytest.param("torch_ccl", {"w": ("ccl", None)}, ["w"], id="older name"),
        pytest.param("torch_ccl", {"w": ("undefined", None)}, ["w"], id="a backend for each device"),
        pytest.param("torch_ccl", {"g": ("gloo", None)}, [], id="gloo beside the bindings"),
        pytest.param("torch_ccl", {}, [], id="destroyed, or never made"),
        pytest.param("", {"w": ("undefined", None)}, [], id="no bindings"),
    ],
)
def test_groups_of_oneccl_are_kept(
    where: str, bindings: str, table: Mapping[str, tuple[str, None]], groups: list[str]
) -> None:
    assert groups_of_oneccl(with_groups(bindings, table, where)) == groups


def test_a_torch_that_has_no_groups_at_all() -> None:
    assert groups_of_oneccl({DISTRIBUTED: SimpleNamespace(), "torch_ccl": object()}) == []


def test_what_is_kept_is_never_freed() -> None:
    kept = object()
    before = sys.getrefcount(kept)
    keep(kept)

    assert sys.getrefcount(kept) == before + 1
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(kept))
