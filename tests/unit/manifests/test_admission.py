"""The rules of operators find what breaks them, so that no manifest of the tests breaks one unseen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.admission import list_flaws
from tests.support.manifests import change, write

REPLICAS = ("spec", "pytorchReplicaSpecs")
CONTAINERS = (*REPLICAS, "Worker", "template", "spec", "containers")
PYTORCHJOB: list[tuple[tuple[Any, ...], Any, str]] = [
    ((*CONTAINERS,), [{"name": "trainer", "image": "a"}], "a container is called pytorch"),
    ((*CONTAINERS,), [], "a container is called pytorch"),
    ((*CONTAINERS,), [{"name": "pytorch"}], "containers have an image"),
    ((*REPLICAS, "Master", "replicas"), 2, "it has one Master, or none"),
    ((*REPLICAS, "Worker", "replicas"), 0, "a kind of replica is there at least once"),
    ((*REPLICAS, "Launcher"), {"replicas": 1, "template": {"spec": {}}}, "it has Masters or Workers and nothing else"),
    ((*REPLICAS, "Master"), None, "pods meet at a Master, or at a Worker of an elastic job"),
    (("metadata", "name"), "1a", "its name is a DNS label"),
]
WORKERS = ("spec", "mpiReplicaSpecs", "Worker")
MPIJOB: list[tuple[tuple[Any, ...], Any, str]] = [
    (("spec", "mpiReplicaSpecs", "Launcher"), None, "it has one Launcher"),
    (("spec", "mpiReplicaSpecs", "Launcher", "replicas"), 2, "it has one Launcher"),
    ((*WORKERS, "replicas"), 0, "it has a Worker"),
    ((*WORKERS, "restartPolicy"), "Always", "pods are restarted never or after a failure"),
    ((*WORKERS, "template", "spec", "containers"), [], "pods have containers"),
    (("spec", "runPolicy", "schedulingPolicy"), None, "a gang does not wait for a launcher that waits for its workers"),
    (("spec", "mpiImplementation"), "MVAPICH", "its MPI is known"),
    (("spec", "slotsPerWorker"), None, "workers have slots"),
    (("spec", "slotsPerWorker"), -1, "workers have slots"),
    (("spec", "sshAuthMountPath"), "", "keys have a directory"),
    (("metadata", "name"), "a" * 55, "the names of its pods are DNS labels"),
]
PATCH = ("spec", "runtimePatches", 0)
POD = (*PATCH, "trainingRuntimeSpec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec")
TRAINJOB: list[tuple[tuple[Any, ...], Any, str]] = [
    (("spec", "runtimeRef", "name"), "", "it names a runtime"),
    (("spec", "runtimeRef", "name"), "a" * 254, "it names a runtime"),
    ((*PATCH, "manager"), "multinode", "who patches a runtime has a name with a domain"),
    ((*PATCH, "manager"), "multinode/", "who patches a runtime has a name with a domain"),
    ((*POD, "containers", 0, "env"), [{"name": "A"}], "a patch has no variables"),
]
JOB = ("spec", "template", "spec", "replicatedJobs", 0)
NAME = (*JOB, "template", "spec", "template", "spec", "containers", 0, "name")
RUNTIME: list[tuple[tuple[Any, ...], Any, str]] = [
    ((*JOB, "replicas"), 2, "the job that trains is there once"),
    (NAME, "pytorch", "the job that trains has a container called node"),
    (("spec", "mlPolicy", "mpi"), {}, "it has at most one policy"),
]
WRONG = [
    *((("pytorchjob", "--elastic", "off"), *row) for row in PYTORCHJOB),
    *((("mpijob",), *row) for row in MPIJOB),
    *((("trainjob",), *row) for row in TRAINJOB),
    *((("runtime",), *row) for row in RUNTIME),
]


@pytest.mark.parametrize(("words", "path", "to", "rule"), WRONG)
def test_a_broken_rule_is_found(words: tuple[str, ...], path: tuple[Any, ...], to: Any, rule: str) -> None:
    kind, *options = words

    assert rule in list_flaws(change(write(kind, *options).manifest, *path, to=to))


def test_a_job_of_a_runtime_that_does_not_train_may_have_any_containers() -> None:
    other = change(write("runtime").manifest, *JOB, "template", "metadata", "labels", to={})

    assert list_flaws(change(other, *JOB, "replicas", to=2)) == []
