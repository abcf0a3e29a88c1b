"""Whether a training that is a child of ours gets the signals of its container from tini."""

from __future__ import annotations

import pytest

from entrypoint.machine.reached import Reached
from entrypoint.processes.child import explain_kill, has_group, is_of_step


@pytest.mark.parametrize(
    ("cmdline", "reached"),
    [
        pytest.param("tini\0-s\0-g\0--\0python3\0-I\0", True, id="the image's own"),
        pytest.param("/usr/bin/tini\0-g\0--\0python3\0", True, id="by its path"),
        pytest.param("tini\0--\0python3\0-g\0", False, id="without groups"),
        pytest.param("/sbin/docker-init\0--\0python3\0", False, id="of the engine"),
        pytest.param("bash\0-g\0", False, id="a shell"),
        pytest.param("", False, id="the kernel"),
        pytest.param(None, False, id="a parent outside"),
    ],
)
def test_an_init_with_groups_signals_the_child_too(cmdline: str | None, reached: bool) -> None:
    assert has_group(cmdline) == reached


@pytest.mark.parametrize(
    ("sender", "comm", "found"),
    [
        pytest.param(7, "slurmstepd\n", True, id="Slurm"),
        pytest.param(0, None, True, id="outside this container"),
        pytest.param(7, "bash\n", False, id="a script of the step"),
        pytest.param(7, None, False, id="kill, which has ended"),
    ],
)
def test_slurm_and_who_is_outside_signal_a_whole_step(sender: int, comm: str | None, found: bool) -> None:
    assert is_of_step(sender, {"/proc/7/comm": comm}.get) == found


@pytest.mark.parametrize(
    ("code", "before", "said"),
    [
        pytest.param(137, Reached(), True, id="killed for want of memory"),
        pytest.param(137, Reached(1, 1), False, id="killed by hand, after another had run out of memory"),
        pytest.param(1, Reached(), False, id="a child of it was killed for want of memory"),
    ],
)
def test_only_a_kill_of_this_job_is_explained_by_memory(
    capsys: pytest.CaptureFixture[str], code: int, before: Reached, said: bool
) -> None:
    files = {
        "/proc/self/cgroup": "0::/\n",
        "/sys/fs/cgroup/memory.events": "oom 1\noom_kill 1\n",
        "/sys/fs/cgroup/memory.max": "1073741824\n",
    }

    explain_kill(code, "rank 1 on node1", files.get, before)

    assert ("rank 1 on node1 was killed by signal 9: the memory limit of this" in capsys.readouterr().err) == said
