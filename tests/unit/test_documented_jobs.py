"""The jobs that README.md and docs/ show: what Kubeflow's definitions and webhooks ask of them, and what they run."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.definitions import require_known, validator
from tests.support.documents import Page, page, pages
from tests.support.manifests import list_pods, run


def shown_in(page: Page) -> list[dict[str, Any]]:
    """Read the objects of Kubernetes that a page shows."""
    return [yaml.safe_load(shown.text) for shown in page.shown if shown.text.startswith("apiVersion: ")]


SHOWN = [shown for page in pages() for shown in shown_in(page)]


def test_kubernetes_takes_what_is_its_own() -> None:
    for manifest in SHOWN:
        require_known(manifest)


# What the pages on Kubernetes type, in their order: what makes objects, and what names them.
TYPED = [shown.text for path in ("docs/kubernetes.md", "docs/kubernetes-reference.md") for shown in page(path).shown]
KINDS = {"pvc": "PersistentVolumeClaim", "job": "Job", "trainjob": "TrainJob"}
NAMED = re.compile(r"\b(pvc|job|trainjob)(?:/| -n training )([\w-]+)")


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in a directory with the scripts that the pages speak of."""
    for name in ("train.py", "sweep.py"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


@cache
def print_manifests() -> list[dict[str, Any]]:
    """List the objects that the commands of these pages print."""
    printed = [re.split(" [|>] ", line)[0] for line in TYPED if line.startswith("python scripts/manifest.py ")]
    return [run(*shlex.split(line.replace("<DIGEST>", "0" * 64))[2:]).manifest for line in printed]


@pytest.mark.parametrize("name", ["smoke", "qa", "mine"])
def test_the_definition_of_its_kind_takes_what_a_page_prints(name: str) -> None:
    printed = [
        manifest
        for manifest in print_manifests()
        if manifest["metadata"]["name"] == name and manifest["kind"] == "TrainJob"
    ]

    for manifest in printed:
        validator(manifest["kind"]).validate(manifest)
    assert len(printed) == 1


def test_a_newcomer_finds_how_a_script_runs_on_tainted_nodes_with_an_account() -> None:
    [line] = [shown for shown in TYPED if "--toleration" in shown and shown.startswith("python scripts/manifest.py ")]
    words = shlex.split(re.split(" [|>] ", line)[0].replace("<DIGEST>", "0" * 64))[2:]

    config, job = run(*words).objects

    [pod] = list_pods(job)
    assert pod["tolerations"] == [{"key": "dedicated", "operator": "Equal", "value": "training"}]
    assert pod["serviceAccountName"] == "trainer"
    mounted = {"name": "scripts", "configMap": {"name": config["metadata"]["name"], "defaultMode": 0o555}}
    assert mounted in pod["volumes"]
    assert job["spec"]["trainer"]["args"][0] == "/workspace/job/train.py" and [*config["data"]] == ["train.py"]


@pytest.mark.parametrize("typed", [line for line in TYPED if line.startswith("kubectl ")])
def test_kubectl_names_what_a_page_has_made(typed: str) -> None:
    there = [manifest for manifest in print_manifests() if manifest["metadata"].get("namespace") == "training"]
    named = {(KINDS[kind], name) for kind, name in NAMED.findall(typed)}
    named |= {("TrainJob", name) for name in re.findall(r"jobset-name=([\w-]+)", typed)}
    saved = {*re.findall(r"> (\S+\.yaml)", "\n".join(TYPED))}

    assert named <= {(manifest["kind"], manifest["metadata"]["name"]) for manifest in there}
    assert {*re.findall(r"-f (\S+\.yaml)", typed)} <= saved


def test_a_claim_and_a_secret_that_a_pod_asks_for_are_made_by_the_pages() -> None:
    text = json.dumps(print_manifests())
    claims = {
        manifest["metadata"]["name"] for manifest in print_manifests() if manifest["kind"] == "PersistentVolumeClaim"
    }
    secrets = set(re.findall(r"create secret generic ([\w-]+)", "\n".join(TYPED)))

    assert {*re.findall(r'"claimName": "([\w-]+)"', text)} - claims == {"corpus"}, "the reader's own"
    assert set(re.findall(r'"secretKeyRef": {"name": "([\w-]+)"', text)) == secrets
