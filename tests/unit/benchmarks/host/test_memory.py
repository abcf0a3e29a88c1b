"""The memory of processes, as /proc says it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.host import memory

ROLLUP = """\
5571a4c7c000-7ffd4b3fe000 ---p 00000000 00:00 0                          [rollup]
Rss:                3492 kB
Pss:                {} kB
Pss_Dirty:            16 kB
SwapPss:               7 kB
"""
NOBODY = (1 << 22) + 1  # no process has such a number: Linux, include/linux/threads.h, PID_MAX_LIMIT


@pytest.mark.parametrize(
    ("text", "size"), [(ROLLUP.format(1), 1024), (ROLLUP.format(1536), 1536 << 10), ("", 0), ("SwapPss: 7 kB\n", 0)]
)
def test_shared_pages_are_counted_once(text: str, size: int) -> None:
    assert memory.parse(text) == size


def test_a_process_has_memory_and_one_that_is_gone_has_none() -> None:
    assert memory.proportional(os.getpid()) > 1 << 20
    assert memory.proportional(NOBODY) == 0


def test_a_process_is_one_of_its_family() -> None:
    assert next(memory.family(os.getpid())) == os.getpid()
    assert [*memory.family(NOBODY)] == [NOBODY]


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ({1: "build", 2: "uv"}, [1, 2]),
        ({1: "build", 2: "build"}, [1]),  # it has not begun its own program, and has its parent's memory
        ({1: "build", 2: "build", 3: "uv"}, [1, 3]),
        ({1: "build", 2: ""}, [1, 2]),  # it has ended
    ],
)
def test_a_child_without_a_program_of_its_own_is_not_counted(
    tmp_path: Path, commands: Mapping[int, str], found: list[int]
) -> None:
    for pid, command in commands.items():
        (tmp_path / f"{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"{pid}/task/{pid}/children").write_text(" ".join(map(str, [*commands][1:])) if pid == 1 else "")
        (tmp_path / f"{pid}/cmdline").write_text(command)
    assert [*memory.family(1, tmp_path)] == found


def test_a_child_that_is_gone_does_not_hide_its_siblings(tmp_path: Path) -> None:
    (tmp_path / "1/task/1").mkdir(parents=True)
    (tmp_path / "1/task/1/children").write_text("2 3")
    (tmp_path / "1/cmdline").write_text("build")
    (tmp_path / "3").mkdir()
    (tmp_path / "3/cmdline").write_text("uv")
    assert [*memory.family(1, tmp_path)] == [1, 2, 3]  # and 2 has no memory
