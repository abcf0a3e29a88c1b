"""MPIJob: its launcher and workers."""

from __future__ import annotations

import pytest

from tests.support.manifests import list_pods, write


def test_the_launcher_runs_the_task_and_the_workers_wait() -> None:
    manifest = write("mpijob", "--workers", "3", "--nproc", "2", "smoke", "--bf16").manifest
    launcher, worker = (pod["containers"][0] for pod in list_pods(manifest))

    assert launcher["args"] == ["smoke", "--bf16"] and worker["args"] == ["worker"]
    assert manifest["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 3
    assert manifest["spec"]["slotsPerWorker"] == 2
    assert launcher["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(("restarts", "limit"), [("0", 0), ("1", 2), ("10", 11)])
def test_the_launcher_is_restarted_as_often_as_asked(restarts: str, limit: int) -> None:
    """A Job fails as soon as the restarts of its pod reach the limit."""
    assert write("mpijob", "--max-restarts", restarts).manifest["spec"]["runPolicy"]["backoffLimit"] == limit
