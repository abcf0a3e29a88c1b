"""The memory of processes, as /proc says it."""

from __future__ import annotations

import os

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
