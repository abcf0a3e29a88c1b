"""What the kernel has counted of limits that were reached, and which limit an end comes from."""

from __future__ import annotations

import errno
import os

import pytest

from multinode_image.machine.cgroups import read_process_limit
from multinode_image.machine.exhausted import (
    MORE_FILES,
    MORE_PROCESSES,
    count_kills,
    explain_error,
    explain_memory,
    has_killed,
    remember_kills,
)

V2 = {"/proc/self/cgroup": "0::/\n"}
V1 = {"/proc/self/cgroup": "8:pids:/docker/1\n4:memory:/docker/1\n0::/\n"}
ROOT = "/sys/fs/cgroup"
LIMIT = {f"{ROOT}/memory.max": "838860800\n"}
PIDS_V1 = {f"{ROOT}/pids/pids.max": "20\n", f"{ROOT}/pids/pids.events": "max 2\n", f"{ROOT}/pids/pids.current": "19\n"}
PIDS_V2 = {f"{ROOT}/pids.max": "20\n", f"{ROOT}/pids.events": "max 2\n", f"{ROOT}/pids.current": "19\n"}


def events(directory: str = "", oom: int = 0, kills: int = 0) -> dict[str, str]:
    return {f"{ROOT}{directory}/memory.events": f"low 0\noom {oom}\noom_kill {kills}\noom_group_kill 0\n"}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param({**V2, **events("", 3, 2)}, 2, id="v2"),
        pytest.param({"/proc/self/cgroup": "0::/job/step\n", **events("/job/step", 0, 1), **events("/job", 4, 5)}, 1,
                     id="a step of a job"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\noom_kill 1\n"}, 1, id="v1"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\n"}, 0, id="an old kernel"),
        pytest.param({**V2, f"{ROOT}/memory.events": "oom_kill x\n\n"}, 0, id="no number"),
        pytest.param({}, 0, id="no cgroup"),
    ],
)  # fmt: skip
def test_what_was_killed_for_want_of_memory_is_counted(files: dict[str, str], found: int) -> None:
    assert count_kills(files.get) == found


@pytest.mark.parametrize("before", [0, 1])
def test_what_an_earlier_job_met_is_not_of_this(before: int) -> None:
    earlier, now = {**V2, **events("", 0, before)}, {**V2, **events("", 0, before + 1)}
    environ = {"MULTINODE_KILLED": "9", **remember_kills(earlier.get)}  # which another container may hand on
    assert not has_killed(earlier.get, environ)
    assert has_killed(now.get, environ)


@pytest.mark.parametrize(("files", "limit"), [({**V1, **PIDS_V1}, 20), ({**V2, **PIDS_V2}, 20), (V2, None)])
def test_the_limit_of_processes_is_read(files: dict[str, str], limit: int | None) -> None:
    assert read_process_limit(files.get) == limit


@pytest.mark.parametrize(
    ("number", "files", "remedy", "value"),
    [
        (errno.EAGAIN, {**V1, **PIDS_V1}, MORE_PROCESSES, "20 of this container"),
        (errno.EAGAIN, V2, MORE_PROCESSES, "of this user"),
        (errno.EMFILE, {}, MORE_FILES, ""),
        (errno.EACCES, {}, "check the file or program that is named", "Permission denied"),
    ],
)
def test_an_error_of_a_limit_is_named(number: int, files: dict[str, str], remedy: str, value: str) -> None:
    found = explain_error(OSError(number, os.strerror(number)), files.get)

    assert found.remedy == remedy and value in found.value and found.code == 1


TOTAL = {"/proc/meminfo": "MemTotal: 8388608 kB\n"}


@pytest.mark.parametrize(
    ("files", "value"),
    [
        ({**V2, **LIMIT}, "the memory limit of this container, 800 MB, was reached"),
        (TOTAL, "the memory of this machine, 8.0 GB, or a limit above the container ran out"),
        ({}, "the memory of this machine or a limit above the container ran out"),
    ],
)
def test_the_memory_that_ran_out_is_named(files: dict[str, str], value: str) -> None:
    assert explain_memory(files.get) == value
