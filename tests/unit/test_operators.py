"""The operators of the tests give a pod of a printed manifest the variables that were recorded below the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.launchers import left_by
from tests.support.manifests import write
from tests.support.mpi_operator import make_mpi_pods, write_hostfile
from tests.support.operators import TORCH_DISTRIBUTED, make_pods, make_trainjob_pods

ADDRESSES = ("10.0.0.2", "10.0.0.3")
JOB = ("--name", "job", "--workers", "2")


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row.get("value") for row in pod["spec"]["containers"][0]["env"]}


def test_a_worker_beside_a_master() -> None:
    pods = make_pods(write("pytorchjob", *JOB, "--elastic", "off").manifest, ADDRESSES)

    assert left_by("pytorchjob-master").items() <= variables(pods[1]).items()


def test_an_elastic_worker() -> None:
    """The recorded job had `standalone: true`, which is the only reason for PET_STANDALONE."""
    recorded = left_by("pytorchjob-elastic")
    del recorded["PET_STANDALONE"]

    for pod in make_pods(write("pytorchjob", *JOB, "--elastic", "1:4", "--max-restarts", "3").manifest, ADDRESSES):
        assert recorded.items() <= variables(pod).items()
        assert "RANK" not in variables(pod)


def test_a_pod_of_a_trainjob() -> None:
    """Of the runtime that Trainer has, and of the one that is printed."""
    job = write("trainjob", *JOB, "--nproc", "4", "--env", "LOGLEVEL=INFO", "smoke").manifest

    for runtime in (TORCH_DISTRIBUTED, write("runtime").manifest):
        pod = make_trainjob_pods(job, runtime, ADDRESSES)[1]
        assert left_by("trainer-v2").items() <= variables(pod).items()
        assert pod["spec"]["containers"][0]["args"] == ["smoke"]


def test_the_pods_of_an_mpijob(tmp_path: Path) -> None:
    job = write("mpijob", *JOB, "--nproc", "2", "smoke").manifest

    *workers, launcher = make_mpi_pods(job, tmp_path, (*ADDRESSES, "10.0.0.4"))

    assert write_hostfile(job) == "job-worker-0.job.default.svc:2\njob-worker-1.job.default.svc:2\n"
    assert left_by("mpijob-launcher-intel").items() <= variables(launcher).items()
    for worker in workers:
        assert left_by("mpijob-worker").items() <= variables(worker).items()
        assert worker["spec"]["containers"][0]["args"] == ["worker"]
