"""Manifests against the definitions, the models of the operators' own packages, and the schemas of Kubernetes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from kubeflow.training.api_client import ApiClient
from kubeflow_trainer_api import models

from tests.support.definitions import schema
from tests.support.harness import ROOT
from tests.support.manifests import list_pods, write

TEXT = ROOT / "tests" / "data" / "manifests"
RELEASE = "1.37"
EVERYTHING = (
    "--pvc", "mine", "--mount", "/data", "--shm", "1Gi", "--node-selector", "a=b",
    "--env", "A=b", "--env-secret", "WANDB_API_KEY=wandb:key", "--env-secret", "HF_TOKEN=hf",
    "--uid", "123456", "--volume", "corpus:/corpus",
)  # fmt: skip
JOB = ("--namespace", "kubeflow", "--queue", "training", "--workers", "3")
ENDS = ("--deadline", "3600", "--ttl", "60")
TASK = ("qa", "--bf16", "--output_dir", "/data/qa")
FORMS = {
    "pytorchjob": ("pytorchjob",),
    "pytorchjob, all": ("pytorchjob", *EVERYTHING, *JOB, *ENDS, "--elastic", "2:5", "--max-restarts", "3", *TASK),
    "pytorchjob, fixed": ("pytorchjob", *EVERYTHING, *JOB, "--elastic", "off", "--nproc", "2", *TASK),
    "pytorchjob, one": ("pytorchjob", "--workers", "1", "--elastic", "off"),
    "script, all": ("pytorchjob", "--volume", "corpus:/corpus", "train.py", "--data", "/corpus"),
    "trainjob": ("trainjob",),
    "trainjob, all": ("trainjob", *EVERYTHING, *JOB, *ENDS[:2], "--nproc", "2", "--runtime", "multinode", *TASK),
    "runtime": ("runtime",),
    "runtime, all": ("runtime", *EVERYTHING, "--workers", "3", "--max-restarts", "3", *TASK),
    "mpijob": ("mpijob",),
    "mpijob, all": ("mpijob", *EVERYTHING, *JOB, *ENDS, "--nproc", "2", "--max-restarts", "3", *TASK),
    "prefetch": ("prefetch",),
    "prefetch, all": ("prefetch", *EVERYTHING, *ENDS, "--queue", "q", "--cpu", "2", "--memory", "8Gi", "qa"),
    "pvc": ("pvc",),
    "pvc, all": ("pvc", "--namespace", "a", "--size", "1Ti", "--storage-class", "nfs"),
}
CUSTOM = [name for name in FORMS if not name.startswith(("prefetch", "pvc"))]


def form(name: str) -> dict[str, Any]:
    kind, *words = FORMS[name]
    return write(kind, *words).manifest


@pytest.mark.parametrize("name", CUSTOM)
def test_the_definition_of_its_kind_takes_a_manifest(name: str) -> None:
    manifest = form(name)

    jsonschema.validate(manifest, schema(manifest["kind"]))


@pytest.mark.parametrize("name", [name for name in CUSTOM if name.startswith(("trainjob", "runtime"))])
def test_the_model_of_trainer_keeps_all_of_it(name: str) -> None:
    manifest = form(name)

    read = getattr(models, f"TrainerV1alpha1{manifest['kind']}").from_dict(manifest)

    assert read.to_dict() == manifest


@pytest.mark.parametrize("name", [name for name in CUSTOM if name.startswith(("pytorchjob", "script"))])
def test_the_model_of_the_training_operator_keeps_all_of_it(name: str) -> None:
    manifest, client = form(name), ApiClient()

    read = client.deserialize(SimpleNamespace(data=json.dumps(manifest)), "KubeflowOrgV1PyTorchJob")

    assert client.sanitize_for_serialization(read) == manifest


@pytest.mark.parametrize("name", FORMS)
def test_kubernetes_takes_the_objects_and_pods_of_a_manifest(name: str) -> None:
    """Objects of Kubernetes as they are, and the pods of the others, but for those that a TrainJob only patches."""
    manifest = form(name)
    objects = [manifest]
    if name in CUSTOM:
        head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}}
        objects = [{**head, "spec": pod} for pod in list_pods(manifest)]

    for each in objects:
        kubernetes_validate.validate(each, RELEASE, strict=True)


TEXTS = {name.removesuffix(", all"): FORMS[name] for name in FORMS if name.endswith(", all")}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_same_to_the_byte(name: str) -> None:
    """What is in tests/data/manifests; after an intended change `python -m tests.unit.manifests.test_definitions`."""
    assert write(*TEXTS[name]).out == (TEXT / f"{name}.yaml").read_text()


if __name__ == "__main__":
    for each, words in TEXTS.items():
        (TEXT / f"{each}.yaml").write_text(write(*words).out)
