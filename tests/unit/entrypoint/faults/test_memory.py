"""What the kernel says of processes that it killed for want of memory."""

from __future__ import annotations

import pytest

from entrypoint.faults.memory import count_kills, explain_memory, has_killed, remember_kills

V2 = {"/proc/self/cgroup": "0::/\n"}
V1 = {"/proc/self/cgroup": "4:memory:/docker/1\n0::/\n"}
ROOT = "/sys/fs/cgroup"


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        pytest.param({**V2, f"{ROOT}/memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 0\n"}, 2, id="v2"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\noom_kill 1\n"}, 1, id="v1"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\n"}, 0, id="an old kernel"),
        pytest.param({**V2, f"{ROOT}/memory.events": "oom_kill x\n"}, 0, id="no number"),
        pytest.param({}, 0, id="no cgroup"),
    ],
)
def test_kills_are_counted(files: dict[str, str], kills: int) -> None:
    assert count_kills(files.get) == kills


@pytest.mark.parametrize("before", [0, 1])
def test_a_kill_of_an_earlier_job_is_not_one_of_this(before: int) -> None:
    events = f"{ROOT}/memory.events"
    files = {**V2, events: f"oom_kill {before}\n"}
    environ = remember_kills(files.get)
    assert bool(environ) == bool(before) and not has_killed(files.get, environ)
    assert has_killed({**V2, events: f"oom_kill {before + 1}\n"}.get, environ)


@pytest.mark.parametrize(
    ("files", "value"),
    [
        ({**V2, f"{ROOT}/memory.max": "838860800\n"}, "the memory limit of this container, 800 MB, was reached"),
        (
            {"/proc/meminfo": "MemTotal: 8388608 kB\n"},
            "the memory of this machine, 8.0 GB, or a limit above the container ran out",
        ),
        ({}, "the memory of this machine or a limit above the container ran out"),
    ],
)
def test_the_limit_is_named(files: dict[str, str], value: str) -> None:
    assert explain_memory(files.get) == value
