"""MPIJob: its launcher and workers, and what its operator refuses."""

from __future__ import annotations

from typing import Any

import pytest

from entrypoint.errors import Refusal
from manifests.kinds import mpijob
from tests.support.manifests import change, list_pods, write


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


REPLICAS = ("spec", "mpiReplicaSpecs")
REFUSED: list[tuple[tuple[str, ...], Any, str]] = [
    ((*REPLICAS, "Launcher"), None, "has one Launcher"),
    ((*REPLICAS, "Launcher", "replicas"), 2, "has one Launcher"),
    ((*REPLICAS, "Worker", "replicas"), 0, "no less than one Worker"),
    ((*REPLICAS, "Worker", "restartPolicy"), "Always", "restart Never or OnFailure"),
    ((*REPLICAS, "Worker", "template", "spec", "containers"), [], "have a container"),
    (("spec", "mpiImplementation"), "MVAPICH", "mpiImplementation is one of"),
    (("spec", "slotsPerWorker"), None, "slots for each worker"),
    (("spec", "slotsPerWorker"), -1, "slots for each worker"),
    (("spec", "sshAuthMountPath"), "", "a directory for keys"),
    (("metadata", "name"), "a" * 55, "at most 54"),
]


@pytest.mark.parametrize(("path", "to", "fact"), REFUSED)
def test_what_the_operator_refuses_is_refused(path: tuple[str, ...], to: Any, fact: str) -> None:
    manifest = write("mpijob").manifest
    mpijob.check_validation(manifest)

    with pytest.raises(Refusal, match=fact):
        mpijob.check_validation(change(manifest, *path, to=to))
