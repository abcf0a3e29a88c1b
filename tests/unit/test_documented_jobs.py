"""The jobs that README.md and docs/ show: what Kubeflow's definitions and webhooks ask of them, and what they run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from entrypoint.tasks.command import WORKER, read_command
from manifests.pod import limit_restarts
from tests.support.admission import list_flaws
from tests.support.definitions import schema
from tests.support.documents import Page, page, pages
from tests.support.manifests import run, write


def shown_in(page: Page) -> list[dict[str, Any]]:
    """Read the objects of Kubernetes that a page shows."""
    return [yaml.safe_load(shown.text) for shown in page.shown if shown.text.startswith("apiVersion: ")]


SHOWN = [each for page in pages() for each in shown_in(page)]
JOBS = [each for each in SHOWN if each["apiVersion"].startswith(("kubeflow.org/", "trainer.kubeflow.org/"))]

WITH_PODS = [each for each in SHOWN if each["kind"] not in ("Service", "TrainJob")]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in JOBS if each["kind"] == kind]


def pods(each: dict[str, Any]) -> list[dict[str, Any]]:
    """List the pods of a job, one for each kind of replica; those of a TrainJob are in its runtime."""
    if each["kind"] == "TrainJob":
        return [{"containers": [each["spec"]["trainer"]]}]
    if each["apiVersion"] in ("v1", "batch/v1"):
        return [each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"]]
    [replicas] = [value for name, value in each["spec"].items() if name.endswith("ReplicaSpecs")]
    return [replica["template"]["spec"] for replica in replicas.values()]


@pytest.mark.parametrize("each", JOBS, ids=lambda each: each["kind"])
def test_a_job_fits_the_definition_of_its_kind(each: dict[str, Any]) -> None:
    jsonschema.validate(each, schema(each["kind"]))


@pytest.mark.parametrize("each", JOBS, ids=lambda each: each["kind"])
def test_the_operator_of_a_job_takes_it(each: dict[str, Any]) -> None:
    assert list_flaws(each) == []


@pytest.mark.parametrize("each", [each for each in JOBS if each["kind"] != "TrainJob"], ids=lambda each: each["kind"])
def test_a_job_fails_after_as_many_restarts_as_one_of_the_script(each: dict[str, Any]) -> None:
    """The restarts of a PyTorchJob's pods are added up, those of an MPIJob's launcher are counted alone."""
    replicas = each["spec"].get("pytorchReplicaSpecs") or {"Launcher": {"replicas": 1}}
    count = sum(one["replicas"] for one in replicas.values())

    assert each["spec"]["runPolicy"]["backoffLimit"] == limit_restarts(10, count)


def test_the_pods_of_the_mpi_job_start_as_those_of_one_of_the_script() -> None:
    """By default a launcher comes at once, and gives up; a worker that was killed is not started again."""
    [each], ours = of_kind("MPIJob"), write("mpijob", "--workers", "2").manifest["spec"]
    shown = each["spec"]

    for name in ("launcherCreationPolicy", "runPolicy"):
        assert shown[name] == ours[name]
    for kind, replica in ours["mpiReplicaSpecs"].items():
        assert shown["mpiReplicaSpecs"][kind]["restartPolicy"] == replica["restartPolicy"]


@pytest.mark.parametrize("each", WITH_PODS, ids=lambda each: each["kind"])
def test_a_pod_keeps_its_cores_and_mounts_what_it_has(each: dict[str, Any]) -> None:
    """A namespace with a quota takes no container without limits."""
    for pod in pods(each):
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes
            sizes = container["resources"]
            assert sizes["requests"].keys() == {"cpu", "memory"}
            assert sizes["requests"] == sizes["limits"]


@pytest.mark.parametrize("each", JOBS, ids=lambda each: each["kind"])
def test_a_pod_runs_a_command_that_the_entrypoint_has(each: dict[str, Any]) -> None:
    for pod in pods(each):
        for container in pod["containers"]:
            assert "command" not in container, "it would take the place of the entrypoint"
            read = read_command(container["args"], {}, lambda *_: None)
            assert read.trains or read.kind == WORKER


def test_kubernetes_takes_what_is_its_own() -> None:
    shown = [each for each in SHOWN if each not in JOBS]

    assert {each["kind"] for each in shown} == {"Pod"}
    for each in shown:
        kubernetes_validate.validate(each, "1.37", strict=True)


# What the pages on Kubernetes type, in their order: what makes objects, and what names them.
TYPED = [each.text for path in ("docs/kubernetes.md", "docs/kubernetes-reference.md") for each in page(path).shown]
KINDS = {"pvc": "PersistentVolumeClaim", "job": "Job", "trainjob": "TrainJob", "pod": "Pod"}
NAMED = re.compile(r"\b(pvc|job|trainjob|pod)(?:/| -n training )([\w-]+)")


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in a directory with the script that the pages speak of."""
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)


def made() -> list[dict[str, Any]]:
    """List the objects that the commands of these pages print, and those that the pages show."""
    printed = [re.split(" [|>] ", each)[0] for each in TYPED if each.startswith("python scripts/manifest.py ")]
    manifests = [run(*shlex.split(each.replace("<DIGEST>", "0" * 64))[2:]).manifest for each in printed]
    return [*manifests, *(each for each in SHOWN if each["kind"] == "Pod")]


@pytest.mark.parametrize("typed", [each for each in TYPED if each.startswith("kubectl ")])
def test_kubectl_names_what_a_page_has_made(typed: str) -> None:
    there = [each for each in made() if each["metadata"].get("namespace") == "training"]
    named = {(KINDS[kind], name) for kind, name in NAMED.findall(typed)}
    named |= {("TrainJob", name) for name in re.findall(r"jobset-name=([\w-]+)", typed)}
    named |= {("Pod", name) for name in re.findall(r"training/([\w-]+):", typed)}
    saved = {*re.findall(r"> (\S+\.yaml)", "\n".join(TYPED)), "copy.yaml"}

    assert named <= {(each["kind"], each["metadata"]["name"]) for each in there}
    assert {*re.findall(r"-f (\S+\.yaml)", typed)} <= saved


def test_a_claim_and_a_secret_that_a_pod_asks_for_are_made_by_the_pages() -> None:
    text = json.dumps(made())
    claims = {each["metadata"]["name"] for each in made() if each["kind"] == "PersistentVolumeClaim"}
    secrets = set(re.findall(r"create secret generic ([\w-]+)", "\n".join(TYPED)))

    assert {*re.findall(r'"claimName": "([\w-]+)"', text)} - claims == {"corpus"}, "the reader's own"
    assert set(re.findall(r'"secretKeyRef": {"name": "([\w-]+)"', text)) == secrets
