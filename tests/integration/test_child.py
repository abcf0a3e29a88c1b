"""A training that is a child of ours: it gets each signal once, and its exit code is ours."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.harness import ROOT

SECONDS = 30
PARENT = """
import sys
from multinode_image.processes import watch_training
sys.exit(watch_training(sys.argv[1:], {"PATH": "/usr/bin:/bin", **STEP}, None))
"""
# It prints what comes, and ends with a number of its own when there is a file of this name.
CHILD = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.write(1, b"%d\\n" % number))
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
sys.exit(7)
"""
STEP = {"SLURM_STEP_ID": "0"}
# Slurm's own process of a step. It stays until it has been looked at.
DAEMON = """
import os, signal, sys, time
with open("/proc/self/comm", "w") as comm:
    comm.write("slurmstepd")
os.killpg(int(sys.argv[1]), signal.SIGUSR1)
time.sleep(0.3)
"""


def start(end: Path, step: dict[str, str], stdin: int | None = None) -> subprocess.Popen[str]:
    """Start the parent with the child, in a session of its own, and wait until the child is ready."""
    source = PARENT.replace("STEP", repr(step))
    command = [sys.executable, "-c", source, sys.executable, "-c", CHILD, str(end)]
    child = subprocess.Popen(
        command, cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=None if stdin is None else lambda: take_terminal(stdin),
    )  # fmt: skip
    assert child.stdout and child.stdout.readline() == "ready\n"
    return child


def take_terminal(number: int) -> None:
    """Make a terminal the one of this session, as a login does."""
    import fcntl
    import termios

    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup every child ignores it
    fcntl.ioctl(number, termios.TIOCSCTTY, 0)


def read_end(child: subprocess.Popen[str], end: Path) -> str:
    """Wait for a signal, let the child end, and return all signals that came."""
    assert child.stdout
    first = child.stdout.readline()
    time.sleep(0.3)  # what is not to happen cannot be awaited: a second signal would have come by now
    end.touch()
    rest, _ = child.communicate(timeout=SECONDS)
    assert child.returncode == 7
    return (first + rest).strip()


@pytest.mark.parametrize("step", [{}, STEP])
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_us_is_passed_on(tmp_path: Path, number: int, step: dict[str, str]) -> None:
    child = start(tmp_path / "end", step)

    os.kill(child.pid, number)

    assert read_end(child, tmp_path / "end") == str(int(number))


def test_a_signal_to_every_process_of_a_step_comes_once(tmp_path: Path) -> None:
    child = start(tmp_path / "end", STEP)

    subprocess.run([sys.executable, "-c", DAEMON, str(child.pid)], check=True, timeout=SECONDS)

    assert read_end(child, tmp_path / "end") == str(int(signal.SIGUSR1))


def test_a_key_of_the_terminal_comes_once(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    child = start(tmp_path / "end", {}, theirs)

    os.write(ours, b"\x03")

    assert read_end(child, tmp_path / "end") == str(int(signal.SIGINT))
    os.close(ours)
    os.close(theirs)


def test_a_terminal_that_is_gone_ends_the_child(tmp_path: Path) -> None:
    """As after `kubectl exec -it` has lost its connection: the kernel signals the first process of a session alone."""
    ours, theirs = pty.openpty()
    child = start(tmp_path / "end", {}, theirs)
    os.close(theirs)

    os.close(ours)

    assert child.wait(SECONDS) == 128 + signal.SIGHUP
    child.communicate()


def test_a_killed_child_has_the_code_of_a_shell(tmp_path: Path) -> None:
    source = PARENT.replace("STEP", "{}")
    done = subprocess.run(
        [sys.executable, "-c", source, "sh", "-c", "kill -9 $$"], cwd=ROOT, timeout=SECONDS, check=False
    )

    assert done.returncode == 137


WORKER = """
import os, sys
from multinode_image.machine import files
from multinode_image.mpi.sshd import serve
files.TEMPORARY = sys.argv[1]
files.make_private.__defaults__ = (sys.argv[1],)
sys.exit(serve(os.environ))
"""


def test_a_worker_that_is_ended_before_it_serves_leaves_no_key(tmp_path: Path) -> None:
    """Its ssh-keygen ends it here, while the private copy of the key is there already."""
    keygen = "ls $TEMPORARY/*/*/id > $TEMPORARY/../seen; kill -TERM $PPID; sleep 30"
    for name, text in (("sshd", "exit 1"), ("ssh-keygen", keygen)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "id_ed25519").write_text("secret")
    (tmp_path / "tmp").mkdir()
    environ = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "MULTINODE_SSH_KEYS": f"{tmp_path}/keys",
        "MULTINODE_SSH_PORT": "52222", "TEMPORARY": f"{tmp_path}/tmp",
    }  # fmt: skip
    command = [sys.executable, "-c", WORKER, f"{tmp_path}/tmp"]

    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=SECONDS)

    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert (tmp_path / "seen").read_text().endswith("/id\n")
    assert [path for path in (tmp_path / "tmp").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [("exit 7", 7, ""), ("#!/bin/sh\r\nexit 0\r\n", 126, "try:"), (None, 127, "try:")],
)
def test_a_child_that_cannot_be_started_says_what_to_do(tmp_path: Path, text: str | None, code: int, said: str) -> None:
    """Also below a parent that ignores the end of its children, as some process managers do."""
    program = tmp_path / "program.sh"
    if text is not None:
        program.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n", newline="")
        program.chmod(0o755)
    command = [sys.executable, "-c", PARENT.replace("STEP", "{}"), str(program)]

    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )  # fmt: skip

    assert done.returncode == code and said in done.stderr
