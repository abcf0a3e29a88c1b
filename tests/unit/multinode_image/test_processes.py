"""What a program inherits that takes the place of this process, and what is said of one that was a child."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from unittest import mock

import pytest

from multinode_image.errors import Refusal
from multinode_image.machine import exhausted
from multinode_image.processes import IGNORED, become, execute, has_group, is_of_step, print_kill


def test_a_program_finds_the_signals_that_python_ignores_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    monkeypatch.setattr(os, "execvpe", lambda *_: found.extend(signal.getsignal(each) for each in IGNORED))

    become("program", ["program"], {})

    assert found == [signal.SIG_DFL, signal.SIG_DFL]


@pytest.mark.parametrize(
    ("text", "mode", "code", "said"),
    [
        ("exit 0\n", 0o755, 126, "Exec format error"),
        ("#!/missing/interpreter\n", 0o755, 126, "No such file"),
        ("#!/bin/sh\nexit 0\n", 0o644, 126, "Permission denied"),
        (None, 0o755, 127, "No such file"),
    ],
)
def test_a_program_that_cannot_be_executed(tmp_path: Path, text: str | None, mode: int, code: int, said: str) -> None:
    program = tmp_path / "program"
    if text is not None:
        program.write_bytes(text.encode())
        program.chmod(mode)
    with pytest.raises(Refusal, match=said) as caught:
        execute(str(program), [str(program)], {"PATH": "/bin"})
    assert caught.value.code == code


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_a_machine_without_room_is_no_fault_of_the_program(number: int) -> None:
    with mock.patch("os.execvpe", side_effect=OSError(number, "full")), pytest.raises(OSError, match="full") as caught:
        execute("/bin/sh", ["/bin/sh"], {})

    assert caught.value.errno == number


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
        pytest.param(137, {}, True, id="killed for want of memory"),
        pytest.param(137, {exhausted.VARIABLE: "1"}, False, id="killed by hand, after another had run out of memory"),
        pytest.param(1, {}, False, id="a child of it was killed for want of memory"),
    ],
)
def test_only_a_kill_of_this_job_is_explained_by_memory(
    capsys: pytest.CaptureFixture[str], code: int, before: dict[str, str], said: bool
) -> None:
    files = {
        "/proc/self/cgroup": "0::/\n",
        "/sys/fs/cgroup/memory.events": "oom 1\noom_kill 1\n",
        "/sys/fs/cgroup/memory.max": "1073741824\n",
    }

    print_kill(code, "rank 1 on node1", files.get, before)

    assert ("rank 1 on node1 was killed by signal 9: the memory limit of this" in capsys.readouterr().err) == said
