"""How a job of hydra ends that does not end by itself: in bounded time, whatever its ranks do."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30
SOURCE = """
import os, sys
from entrypoint.mpi import follow
follow.GRACE, follow.PATIENCE = 2.0, 0.2
sys.exit(follow.run_ranks(["sh", "-c", sys.argv[1]], os.environ))
"""
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


def start(script: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SOURCE, script], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def test_a_hydra_that_is_killed_is_said_to_be() -> None:
    job = start("kill -9 $$")

    _, err = job.communicate(timeout=SECONDS)

    assert (job.returncode, err) == (137, "multinode: the job was killed by signal 9\n")


def test_further_signals_give_a_stubborn_job_no_more_time() -> None:
    job = start(STUBBORN)
    assert job.stdout and job.stdout.readline() == "ready\n"
    began = time.monotonic()

    while job.poll() is None and time.monotonic() < began + SECONDS:
        job.send_signal(signal.SIGINT)
        time.sleep(0.5)

    assert job.returncode == 130
    assert time.monotonic() - began < 10
    job.communicate(timeout=SECONDS)  # its ranks have let go of its output


def test_ranks_that_go_on_after_another_has_failed_are_killed() -> None:
    job = start(f"printf '\\0multinode-failed 1 node1 7\\n' >&2; {STUBBORN}")

    _, err = job.communicate(timeout=SECONDS)

    assert job.returncode == 7
    assert "rank 1 on node1 ended with exit code 7; the job is ended" in err
