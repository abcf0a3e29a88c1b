"""The jobs that README.md and docs/ show: what Kubeflow's definitions and webhooks ask of them, and what they run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.documents import Page, page, pages
from tests.support.manifests import run


def shown_in(page: Page) -> list[dict[str, Any]]:
    """Read the objects of Kubernetes that a page shows."""
    return [yaml.safe_load(shown.text) for shown in page.shown if shown.text.startswith("apiVersion: ")]


SHOWN = [each for page in pages() for each in shown_in(page)]
PODS = [each for each in SHOWN if each["kind"] == "Pod"]


@pytest.mark.parametrize("each", PODS, ids=lambda each: each["metadata"]["name"])
def test_a_pod_keeps_its_cores_and_mounts_what_it_has(each: dict[str, Any]) -> None:
    """A namespace with a quota takes no container without limits."""
    volumes = {volume["name"] for volume in each["spec"].get("volumes", [])}
    for container in each["spec"]["containers"]:
        assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes
        sizes = container["resources"]
        assert sizes["requests"].keys() == {"cpu", "memory"}
        assert sizes["requests"] == sizes["limits"]


def test_kubernetes_takes_what_is_its_own() -> None:
    for each in PODS:
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
    return [*manifests, *PODS]


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
