"""What the kernel says of processes that it killed for want of memory."""

from __future__ import annotations

import pytest

from entrypoint.faults.memory import Kills, count_kills, explain_memory, has_killed, recall_kills, remember_kills

V2 = {"/proc/self/cgroup": "0::/\n"}
V1 = {"/proc/self/cgroup": "4:memory:/docker/1\n0::/\n"}
ROOT = "/sys/fs/cgroup"


LIMIT = {f"{ROOT}/memory.max": "838860800\n"}
OWN = "the memory limit of this container, 800 MB, was reached"
# A step of Slurm, whose job has the limit: its lines are below those of all jobs of the node.
JOB = "/system.slice/slurmstepd.scope/job_1"
STEP = {
    "/proc/self/cgroup": f"0::{JOB}/step_0\n",
    f"{ROOT}{JOB}/memory.max": "838860800\n",
    f"{ROOT}{JOB}/step_0/memory.max": "max\n",
    f"{ROOT}{JOB}/step_0/memory.events": "oom 0\noom_kill 1\n",
}


def events(directory: str = "", oom: int = 0, kills: int = 0) -> dict[str, str]:
    return {f"{ROOT}{directory}/memory.events": f"low 0\noom {oom}\noom_kill {kills}\noom_group_kill 0\n"}


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        pytest.param({**V2, **LIMIT, **events("", 3, 2)}, Kills(2, 3), id="v2"),
        pytest.param({**V2, **events("", 3, 2)}, Kills(2), id="without a limit of its own"),
        pytest.param({**V2, **LIMIT, f"{ROOT}/memory.events": "oom_kill 2\n"}, Kills(2), id="one line"),
        pytest.param({**STEP, **events(JOB, 4, 5), **events("/system.slice", 9, 9)}, Kills(1, 4), id="the limit above"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\noom_kill 1\n"}, Kills(1), id="v1"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\n"}, Kills(), id="an old kernel"),
        pytest.param({**V2, f"{ROOT}/memory.events": "oom_kill x\n\n"}, Kills(), id="no number"),
        pytest.param({}, Kills(), id="no cgroup"),
    ],
)
def test_kills_are_counted(files: dict[str, str], kills: Kills) -> None:
    assert count_kills(files.get) == kills


@pytest.mark.parametrize("before", [0, 1])
def test_a_kill_of_an_earlier_job_is_not_one_of_this(before: int) -> None:
    environ = remember_kills({**V2, **events("", 0, before)}.get)
    assert bool(environ) == bool(before)
    assert not has_killed({**V2, **events("", 0, before)}.get, recall_kills(environ))
    assert has_killed({**V2, **events("", 0, before + 1)}.get, recall_kills(environ))


@pytest.mark.parametrize(
    ("environ", "kills"),
    [
        ({}, Kills(0, 0)),
        ({"MULTINODE_KILLS": "2 1"}, Kills(2, 1)),
        ({"MULTINODE_KILLS": "2"}, Kills(2, 0)),
        ({"MULTINODE_KILLS": "x y z"}, Kills(0, 0)),
    ],
)
def test_what_had_been_before_is_read(environ: dict[str, str], kills: Kills) -> None:
    assert recall_kills(environ) == kills


@pytest.mark.parametrize(
    ("files", "value"),
    [
        pytest.param({**V2, **LIMIT, **events("", 2, 3)}, OWN, id="its own"),
        pytest.param({**V1, f"{ROOT}/memory/memory.limit_in_bytes": "838860800\n"}, OWN, id="v1 does not say whose"),
        pytest.param(
            {**V2, **LIMIT, **events("", 1, 3), "/proc/meminfo": "MemTotal: 8388608 kB\n"},
            "the memory of this machine, 8.0 GB, or a limit above the container ran out",
            id="the limit was reached in an earlier job only",
        ),
        pytest.param(
            {"/proc/meminfo": "MemTotal: 8388608 kB\n"},
            "the memory of this machine, 8.0 GB, or a limit above the container ran out",
            id="no limit",
        ),
        pytest.param({}, "the memory of this machine or a limit above the container ran out", id="nothing is known"),
    ],
)
def test_the_memory_that_ran_out_is_named(files: dict[str, str], value: str) -> None:
    assert explain_memory(files.get, Kills(2, 1)) == value
