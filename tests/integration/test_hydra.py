"""What hydra is started with, and how a job ends that does not end by itself: in bounded time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from multinode_image.mpi.launch import launch
from tests.support.harness import ROOT
from tests.support.starts import make_facts

SECONDS = 30
SOURCE = """
import os, sys
from multinode_image import timeouts
from multinode_image.mpi import launch
timeouts.RANKS_END = 1.7
sys.exit(launch.run_hydra(["sh", "-c", sys.argv[1]], os.environ))
"""
STUBBORN = "trap '' TERM INT; echo ready; while :; do sleep 0.1; done"


def start(script: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SOURCE, script], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize(
    ("script", "code", "error"),
    [("exit 7", 7, False), ("kill -9 $$", 137, False), ("exit 255", 1, True), ("kill -PIPE $$", 1, True)],
)
def test_hydra_gives_the_exit_code_or_has_lost_a_node(script: str, code: int, error: bool) -> None:
    job = start(script)

    _, err = job.communicate(timeout=SECONDS)

    assert (job.returncode, "hydra has lost a node" in err) == (code, error)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_further_signals_give_a_stubborn_job_no_more_time(number: signal.Signals, code: int) -> None:
    job = start(STUBBORN)
    assert job.stdout and job.stdout.readline() == "ready\n"
    began = time.monotonic()

    while job.poll() is None and time.monotonic() < began + SECONDS:
        job.send_signal(number)
        time.sleep(0.5)

    assert job.returncode == code
    assert time.monotonic() - began < 10
    job.communicate(timeout=SECONDS)


HYDRA = """#!/bin/sh
echo "$@" > {0}/argv
cat {1} > {0}/hosts
env > {0}/environ
exit 7
"""


@pytest.mark.usefixtures("foreground")
def test_hydra_is_started_with_the_hosts_and_what_all_ranks_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mpiexec.hydra").write_text(HYDRA.format(tmp_path, '"$3"'))
    (tmp_path / "mpiexec.hydra").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile", "I_MPI_PERHOST": "1"}

    facts = make_facts(environ, root=str(tmp_path))

    code = launch(["--hosts", "127.0.0.1:2", "true"], {**environ, "MULTINODE_SET": "A=1", "A": "1"}, facts)

    assert code == 7
    words = (tmp_path / "argv").read_text().split()
    assert words[:2] == ["-disable-auto-cleanup", "-machinefile"]
    assert words[3:] == ["-n", "2", "python3", "-I", "-S", str(tmp_path), "true"]
    assert (tmp_path / "hosts").read_text() == "127.0.0.1:2\n"
    assert not Path(words[2]).exists()
    given = dict(line.split("=", 1) for line in (tmp_path / "environ").read_text().splitlines())
    assert given["MULTINODE_WORLD_SIZE"] == "2" and given["MULTINODE_SUPERVISED"] == "1" and given["I_MPI_PIN"] == "0"
    assert not given.keys() & {"A", "I_MPI_HYDRA_HOST_FILE", "I_MPI_PERHOST"}
