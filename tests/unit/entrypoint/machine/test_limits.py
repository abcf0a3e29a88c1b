"""Limits out of the texts of /proc and /sys, and which of them a job is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.machine.limits import (
    DEFAULT_SHM,
    MEMORY,
    SMOKE_MEMORY,
    Demand,
    Limits,
    read_flags,
    read_limits,
    warn,
)

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
    assert read_limits({"/proc/meminfo": MEMINFO}.get, lambda path: size).shm == shm


@given(st.text(), st.text(), st.text())
def test_any_text_is_a_limit_or_none(meminfo: str, cgroup: str, limit: str) -> None:
    files = {"/proc/meminfo": meminfo, "/proc/cpuinfo": meminfo, "/proc/self/cgroup": cgroup}
    assert read_limits(lambda path: files.get(path, limit), lambda path: None).memory >= 0


PLENTY = Limits(GB, 64 * GB, frozenset({"avx512_bf16"}))
HIDDEN = frozenset({"avx512_bf16", "avx512_fp16"})
DOCKER = PLENTY._replace(shm=DEFAULT_SHM)
TASK = Demand({}, 1, MEMORY, known=True)


@pytest.mark.parametrize(
    ("limits", "demand", "said"),
    [
        (PLENTY, TASK._replace(ranks=4, given={"bf16": True, "dataloader_num_workers": "4"}), []),
        (DOCKER, TASK, []),
        (DOCKER, TASK._replace(given={"dataloader_num_workers": "0"}), []),
        (DOCKER, TASK._replace(given={"dataloader_num_workers": "2"}), ["/dev/shm has 64 MB"]),
        (DOCKER, TASK._replace(given={"dataloader_num_workers": 2}), ["/dev/shm has 64 MB"]),
        (DOCKER, TASK._replace(ranks=2), ["/dev/shm has 64 MB"]),
        (DOCKER, TASK._replace(known=False), ["/dev/shm has 64 MB"]),
        (PLENTY._replace(shm=None), TASK._replace(ranks=2), ["/dev/shm has 0 MB"]),
        (PLENTY._replace(memory=GB), TASK, ["has 1.0 GB of memory, and training a small model takes 2.0 GB"]),
        (PLENTY._replace(memory=3 * GB), TASK._replace(ranks=2), ["has 3.0 GB of memory for 2 ranks"]),
        (PLENTY._replace(memory=GB), TASK._replace(memory=SMOKE_MEMORY), []),
        (PLENTY._replace(flags=HIDDEN), TASK._replace(given={"bf16": True}), ["AMX is hidden on this processor"]),
        (PLENTY._replace(flags=HIDDEN), TASK, []),
        (PLENTY._replace(flags=HIDDEN | {"amx_bf16"}), TASK._replace(given={"bf16": True}), []),
        (PLENTY, TASK._replace(given={"fp16": True}), ["fp16 was asked for, and has no effect on a CPU: take --bf16"]),
        (PLENTY, TASK._replace(given={"fp16": "True"}), ["fp16 was asked for"]),
        (PLENTY, TASK._replace(given={"fp16": "False"}), []),
        (PLENTY, TASK._replace(given={"fp16": False}), []),
        (PLENTY, TASK._replace(given={"fp16": True}, known=False), []),
        (PLENTY._replace(flags=read_flags(GRAVITON)), TASK._replace(given={"bf16": "true"}), []),
    ],
)
def test_a_job_is_warned_of_what_it_will_reach(limits: Limits, demand: Demand, said: list[str]) -> None:
    lines = warn(limits, demand)
    assert all(part in line for part, line in zip(said, lines, strict=True))
