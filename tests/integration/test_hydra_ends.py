"""How a job of hydra ends that does not end by itself: in bounded time, whatever its ranks do."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.support.harness import ROOT

SECONDS = 30
SOURCE = """
import os, sys
from entrypoint import timeouts
from entrypoint.mpi import launch
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
