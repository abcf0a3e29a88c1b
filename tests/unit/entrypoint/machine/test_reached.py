"""What the kernel has counted of limits that were reached, and which limit an end comes from."""

from __future__ import annotations

import errno
import os

import pytest

from entrypoint.machine.reached import (
    MORE_FILES,
    MORE_MEMORY,
    MORE_PROCESSES,
    Reached,
    count_processes,
    count_reached,
    explain_end,
    explain_error,
    explain_memory,
    read_process_limit,
    recall_reached,
    remember_reached,
)

V2 = {"/proc/self/cgroup": "0::/\n"}
V1 = {"/proc/self/cgroup": "8:pids:/docker/1\n4:memory:/docker/1\n0::/\n"}
ROOT = "/sys/fs/cgroup"
LIMIT = {f"{ROOT}/memory.max": "838860800\n"}
# A step of Slurm, whose job has the limit: its lines are below those of all jobs of the node.
JOB = "/system.slice/slurmstepd.scope/job_1"
STEP = {
    "/proc/self/cgroup": f"0::{JOB}/step_0\n",
    f"{ROOT}{JOB}/memory.max": "838860800\n",
    f"{ROOT}{JOB}/step_0/memory.max": "max\n",
    f"{ROOT}{JOB}/step_0/memory.events": "oom 0\noom_kill 1\n",
}
PIDS_V1 = {f"{ROOT}/pids/pids.max": "20\n", f"{ROOT}/pids/pids.events": "max 2\n", f"{ROOT}/pids/pids.current": "19\n"}
PIDS_V2 = {f"{ROOT}/pids.max": "20\n", f"{ROOT}/pids.events": "max 2\n", f"{ROOT}/pids.current": "19\n"}


def events(directory: str = "", oom: int = 0, kills: int = 0) -> dict[str, str]:
    return {f"{ROOT}{directory}/memory.events": f"low 0\noom {oom}\noom_kill {kills}\noom_group_kill 0\n"}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param({**V2, **LIMIT, **events("", 3, 2)}, Reached(2, 3), id="v2"),
        pytest.param({**V2, **events("", 3, 2)}, Reached(2), id="without a limit of its own"),
        pytest.param({**STEP, **events(JOB, 4, 5), **events("/system.slice", 9, 9)}, Reached(1, 4), id="limit above"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\noom_kill 1\n"}, Reached(1), id="v1"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\n"}, Reached(), id="an old kernel"),
        pytest.param({**V2, f"{ROOT}/memory.events": "oom_kill x\n\n"}, Reached(), id="no number"),
        pytest.param({**V1, **PIDS_V1}, Reached(processes=2), id="processes, v1"),
        pytest.param({**V2, **PIDS_V2}, Reached(processes=2), id="processes, v2"),
        pytest.param({}, Reached(), id="no cgroup"),
    ],
)
def test_limits_that_were_reached_are_counted(files: dict[str, str], found: Reached) -> None:
    assert count_reached(files.get) == found


@pytest.mark.parametrize(("files", "limit"), [({**V1, **PIDS_V1}, 20), ({**V2, **PIDS_V2}, 20), (V2, None)])
def test_the_limit_of_processes_is_read(files: dict[str, str], limit: int | None) -> None:
    assert read_process_limit(files.get) == limit
    assert count_processes(files.get) == (limit and 19)


@pytest.mark.parametrize("before", [0, 1])
def test_what_an_earlier_job_reached_is_not_of_this(before: int) -> None:
    earlier, now = {**V2, **events("", 0, before)}, {**V2, **events("", 0, before + 1)}
    environ = remember_reached(earlier.get)
    assert bool(environ) == bool(before)
    assert explain_end(-9, "rank 1", earlier.get, recall_reached(environ)) is None
    assert explain_end(-9, "rank 1", now.get, recall_reached(environ)) is not None


@pytest.mark.parametrize(
    ("value", "found"),
    [("", Reached(0, 0)), ("2 1 3", Reached(2, 1, 3)), ("2", Reached(2, 0)), ("x y z", Reached(0, 0))],
)
def test_what_had_been_before_is_read(value: str, found: Reached) -> None:
    assert recall_reached({"MULTINODE_REACHED": value}) == found


@pytest.mark.parametrize(
    ("code", "files", "before", "remedy"),
    [
        pytest.param(-9, {**V2, **LIMIT, **events("", 1, 1)}, Reached(), MORE_MEMORY, id="killed"),
        pytest.param(-9, {**V2, **LIMIT, **events("", 1, 1)}, Reached(1, 1), None, id="killed by hand, later"),
        pytest.param(1, {**V2, **LIMIT, **events("", 1, 1)}, Reached(), None, id="a child of it was killed"),
        pytest.param(-6, {**V1, **PIDS_V1}, Reached(), MORE_PROCESSES, id="OpenMP got no thread"),
        pytest.param(0, {**V1, **PIDS_V1}, Reached(), None, id="ended well all the same"),
        pytest.param(1, {**V1, **PIDS_V1}, Reached(processes=2), None, id="in an earlier job"),
    ],
)
def test_the_limit_that_ended_a_rank_is_found(
    code: int, files: dict[str, str], before: Reached, remedy: str | None
) -> None:
    found = explain_end(code, "rank 1 on node1", files.get, before)

    assert (found.remedy if found else None) == remedy


@pytest.mark.parametrize(
    ("number", "files", "remedy", "value"),
    [
        (errno.EAGAIN, {**V1, **PIDS_V1}, MORE_PROCESSES, "20 of this container"),
        (errno.EAGAIN, V2, MORE_PROCESSES, "of this user"),
        (errno.EMFILE, {}, MORE_FILES, ""),
        (errno.EACCES, {}, None, ""),
    ],
)
def test_an_error_of_a_limit_is_named(number: int, files: dict[str, str], remedy: str | None, value: str) -> None:
    found = explain_error(OSError(number, os.strerror(number)), files.get, "this command")

    assert (found.remedy if found else None) == remedy
    assert value in (found.value if found else "")


OWN = "the memory limit of this container, 800 MB, was reached"
MACHINE = "the memory of this machine, 8.0 GB, or a limit above the container ran out"
TOTAL = {"/proc/meminfo": "MemTotal: 8388608 kB\n"}


@pytest.mark.parametrize(
    ("files", "value"),
    [
        pytest.param({**V2, **LIMIT, **events("", 2, 3)}, OWN, id="its own"),
        pytest.param({**V1, f"{ROOT}/memory/memory.limit_in_bytes": "838860800\n"}, OWN, id="v1 does not say whose"),
        pytest.param({**V2, **LIMIT, **events("", 1, 3), **TOTAL}, MACHINE, id="reached in an earlier job only"),
        pytest.param(TOTAL, MACHINE, id="no limit"),
        pytest.param({}, MACHINE.replace(", 8.0 GB,", ""), id="nothing is known"),
    ],
)
def test_the_memory_that_ran_out_is_named(files: dict[str, str], value: str) -> None:
    assert explain_memory(files.get, Reached(2, 1)) == value
