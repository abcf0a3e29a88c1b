"""The jobs that README.md and docs/ show: what Kubeflow's definitions and webhooks ask of them, and what they run."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from entrypoint.training import job
from tests.support.documents import Page, pages
from tests.support.harness import ROOT

# Custom resource definitions of the releases that the pages speak of; they are not part of this repository.
DEFINITIONS = Path(os.environ.get("MULTINODE_CRDS", ROOT.parent / "shared" / "crds"))
FILES = {"PyTorchJob": "kubeflow.org_pytorchjobs.v1.9.0.yaml", "MPIJob": "kubeflow.org_mpijobs.v2beta1.yaml"}
# RFC 1035 as Kubernetes takes it.
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def shown_in(page: Page) -> list[dict[str, Any]]:
    """Read the objects of Kubernetes that a page shows."""
    return [yaml.safe_load(shown.text) for shown in page.shown if shown.text.startswith("apiVersion: ")]


JOBS = [each for page in pages() for each in shown_in(page)]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in JOBS if each["kind"] == kind]


def pods(each: dict[str, Any]) -> list[dict[str, Any]]:
    """List the pods of a job, one for each kind of replica."""
    [replicas] = [value for name, value in each["spec"].items() if name.endswith("ReplicaSpecs")]
    return [replica["template"]["spec"] for replica in replicas.values()]


@cache
def schema(kind: str) -> dict[str, Any]:
    """Read the schema of a kind, and let it refuse fields that it does not have."""
    path = DEFINITIONS / FILES[kind]
    if not path.is_file():
        pytest.skip(f"NOT VALIDATED: {path} is absent; MULTINODE_CRDS names the directory with Kubeflow's definitions")
    definition = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    found: dict[str, Any] = strict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    return found


def strict(node: Any) -> Any:
    """Refuse unknown fields wherever a schema lists the known ones, as `kubectl --validate=strict` does."""
    if isinstance(node, list):
        return [strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    closed = isinstance(node.get("properties"), dict) and not node.get("x-kubernetes-preserve-unknown-fields")
    open_metadata = node.get("type") == "object" and "properties" not in node
    inner = {key: strict(value) for key, value in node.items()}
    return {**inner, "additionalProperties": False} if closed and not open_metadata else inner


@pytest.mark.parametrize("each", JOBS, ids=lambda each: each["kind"])
def test_a_job_fits_the_definition_of_its_kind(each: dict[str, Any]) -> None:
    jsonschema.validate(each, schema(each["kind"]))


def test_a_field_that_nobody_knows_is_refused() -> None:
    [wrong] = of_kind("PyTorchJob")

    with pytest.raises(jsonschema.ValidationError, match="nproc"):
        jsonschema.validate({**wrong, "spec": {**wrong["spec"], "nproc": "2"}}, schema("PyTorchJob"))


def test_the_webhook_lets_the_pytorch_job_in() -> None:
    """What pkg/webhooks/pytorch/pytorchjob_webhook.go of the training operator 1.9 asks beyond the schema."""
    [each] = of_kind("PyTorchJob")
    replicas = each["spec"]["pytorchReplicaSpecs"]

    assert NAME.fullmatch(each["metadata"]["name"])
    assert replicas.keys() == {"Master", "Worker"}
    assert replicas["Master"]["replicas"] == 1 and replicas["Worker"]["replicas"] >= 1
    assert all(any(one["name"] == "pytorch" for one in pod["containers"]) for pod in pods(each))


def test_the_validation_lets_the_mpi_job_in() -> None:
    """What pkg/apis/kubeflow/validation/validation.go of the MPI operator asks beyond the schema."""
    [each] = of_kind("MPIJob")
    replicas = each["spec"]["mpiReplicaSpecs"]

    assert NAME.fullmatch(f"{each['metadata']['name']}-worker-{replicas['Worker']['replicas'] - 1}")
    assert replicas["Launcher"]["replicas"] == 1


@pytest.mark.parametrize("each", JOBS, ids=lambda each: each["kind"])
def test_a_pod_keeps_its_cores_and_mounts_what_it_has(each: dict[str, Any]) -> None:
    for pod in pods(each):
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes
            sizes = container.get("resources", {})
            assert sizes.get("requests") == sizes.get("limits")


@pytest.mark.parametrize("each", JOBS, ids=lambda each: each["kind"])
def test_a_pod_runs_a_command_that_the_entrypoint_has(each: dict[str, Any]) -> None:
    for pod in pods(each):
        for container in pod["containers"]:
            assert "command" not in container, "it would take the place of the entrypoint"
            read = job.read_job(container["args"], {}, lambda *_: None)
            assert read.trains or read.kind == job.WORKER
