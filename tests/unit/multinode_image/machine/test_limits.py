"""Limits out of the texts of /proc and /sys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.machine.cgroups import read_limit
from multinode_image.machine.limits import read_flags, read_limits

GB = 1 << 30
MEMINFO = "MemTotal:       16777216 kB\nMemFree:  1 kB\n"
V1 = "9:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n"
SAPPHIRE = "processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_bf16\n\nprocessor\t: 1\nflags\t\t: fpu\n"
GRAVITON = "processor\t: 0\nFeatures\t: fp asimd i8mm bf16\n"


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({}, 16 * GB),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}, 16 * GB),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1073741824\n"}, GB),
        ({"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/memory.max": "1073741824\n",
          "/sys/fs/cgroup/a/b/memory.max": "2147483648\n"}, GB),
        ({"/proc/self/cgroup": V1, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n"}, 2 * GB),
        ({"/proc/self/cgroup": V1, "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "2147483648\n"}, 2 * GB),
        ({"/proc/self/cgroup": V1, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16 * GB),
    ],
)  # fmt: skip
def test_memory_is_the_tightest_limit(files: dict[str, str], memory: int) -> None:
    assert read_limits({"/proc/meminfo": MEMINFO, **files}.get, lambda path: None).memory == memory


@pytest.mark.parametrize(("text", "flag"), [(SAPPHIRE, "amx_bf16"), (GRAVITON, "bf16")])
def test_the_flags_of_x86_and_arm_are_read(text: str, flag: str) -> None:
    assert flag in read_flags(text)
    assert read_flags(None) == read_flags("flags\n") == frozenset()


@pytest.mark.parametrize(("size", "shm"), [(None, None), (1 << 20, 1 << 20), (0, 16 * GB)])
def test_shared_memory_without_a_limit_is_all_memory(size: int | None, shm: int | None) -> None:
    assert read_limits({"/proc/meminfo": MEMINFO}.get, lambda path: None if size is None else (size, 0)).shm == shm


@given(st.text(), st.text(), st.text())
def test_any_text_is_a_limit_or_none(meminfo: str, cgroup: str, limit: str) -> None:
    files = {"/proc/meminfo": meminfo, "/proc/cpuinfo": meminfo, "/proc/self/cgroup": cgroup}
    assert read_limits(lambda path: files.get(path, limit), lambda path: None).memory >= 0


@pytest.mark.parametrize(
    ("text", "limit"), [("max\n", None), ("9223372036854771712\n", None), ("838860800\n", 838860800), ("", None)]
)
def test_a_limit_that_no_machine_reaches_is_none(text: str, limit: int | None) -> None:
    assert read_limit(text) == limit
