"""Manifests against the definitions, the models of the operators' own packages, and the schemas of Kubernetes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from kubeflow.training.api_client import ApiClient
from kubeflow_trainer_api import models

from manifests.kinds import KINDS as ROWS
from manifests.options import JOB_ROWS, JOBS, POD_ROWS, has_option
from manifests.request import ManifestKind
from multinode_image.world.table import detect
from tests.golden import data, manifests
from tests.golden.manifests import ENDS, EVERYTHING, FORMS, PODS
from tests.support.admission import identify, list_flaws
from tests.support.definitions import require_known, validator
from tests.support.manifests import list_pods, list_templates, write


@cache
def form(name: str) -> dict[str, Any]:
    kind, *words = FORMS[name]
    return write(kind, *words).manifest


# Those of operators, whose groups have a domain.
CUSTOM = [name for name in FORMS if "." in form(name)["apiVersion"]]


@pytest.mark.parametrize("name", CUSTOM)
def test_the_definition_of_its_kind_takes_a_manifest(name: str) -> None:
    manifest = form(name)

    validator(manifest["kind"]).validate(manifest)


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

    for written in objects:
        require_known(written)


@pytest.mark.parametrize(
    ("api", "kind", "known"),
    [("batch/v1", "Job", True), ("batch.volcano.sh/v1alpha1", "Job", False), ("v1", "Job", False),
     ("trainer.kubeflow.org/v1alpha1", "PyTorchJob", False)],
)  # fmt: skip
def test_a_kind_is_known_by_its_group_as_well(api: str, kind: str, known: bool) -> None:
    manifest = {"apiVersion": api, "kind": kind, "spec": {"template": {}}}

    assert (list_flaws(manifest) == []) is known
    with nullcontext() if known else pytest.raises(AssertionError, match=identify(manifest)):
        assert list_templates(manifest) == [{}]


def test_the_text_is_the_same_to_the_byte() -> None:
    assert manifests.produce() == data.recorded("manifests"), data.REMEDY


@pytest.mark.parametrize("kind", [kind for kind in ROWS.values() if kind.has_pods], ids=lambda kind: kind.name)
def test_the_pods_of_every_kind_have_each_field_that_an_option_sets(kind: ManifestKind) -> None:
    wanted = {row.field for row in POD_ROWS if row.option in EVERYTHING and row.option not in kind.lacks}
    assert wanted >= {row.field for row in POD_ROWS if row.option not in PODS}, "EVERYTHING has each option of pods"

    assert [option for option in PODS if option.startswith("--") and option not in ROWS["trainjob"].lacks] == [], (
        "an option of pods that a TrainJob has, too, is one of EVERYTHING"
    )

    assert f"{kind.name}, all" in FORMS, "tests/golden/manifests.py has a form of each kind"
    for pod in list_pods(form(f"{kind.name}, all")):
        assert wanted <= pod.keys()


@pytest.mark.parametrize("kind", [kind for kind in ROWS.values() if kind.runs], ids=lambda kind: kind.name)
def test_every_kind_of_job_has_each_field_that_an_option_sets(kind: ManifestKind) -> None:
    assert {row.option for row in JOB_ROWS} == ENDS.keys(), "ENDS has each option of jobs"

    text = json.dumps(form(f"{kind.name}, all"))
    lacking = [row.field for row in JOB_ROWS if has_option(kind, row.option, JOBS) and f'"{row.field}"' not in text]
    assert lacking == []


def test_the_pods_of_an_indexed_job_find_each_other() -> None:
    service, job = write("job", "--name", "mine", "--workers", "2", "--nproc", "2", "train.py").objects
    [container] = list_pods(job)[0]["containers"]
    variables = {described["name"]: described["value"] for described in container["env"]}

    world = detect({**variables, "JOB_COMPLETION_INDEX": "1"})

    for described in (service, job):
        require_known(described)
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == world.nodes[1] == 2
    assert (world.node_rank, world.master, world.local_size) == (1, "mine-0.mine", 2)


@pytest.mark.parametrize("words", [("glue",), ("train.py",), ("python", "train.py")])
def test_the_pods_of_a_sweep_train_by_themselves_each_into_a_directory_of_its_own(words: tuple[str, ...]) -> None:
    """A kubelet expands a variable in those behind it, and in the arguments."""
    [job] = write("job", "--name", "mine", "--workers", "3", "--env", "MULTINODE_APART=1", *words).objects
    [container] = list_pods(job)[0]["containers"]
    first, *others = container["env"]
    variables = {variable["name"]: variable["value"] for variable in others}

    require_known(job)
    assert first["name"] == "JOB_COMPLETION_INDEX"
    assert detect({**variables, "JOB_COMPLETION_INDEX": "2"}).launcher == "alone"
    assert "/workspace/output/mine/$(JOB_COMPLETION_INDEX)" in [*variables.values(), *container["args"]]
    assert job["spec"]["backoffLimitPerIndex"] == 10 and "backoffLimit" not in job["spec"]


@pytest.mark.parametrize(("sweep", "action"), [("0", "FailJob"), ("1", "FailIndex")])
def test_a_job_is_not_made_anew_for_a_mistake_and_counts_no_pod_that_was_taken_away(sweep: str, action: str) -> None:
    """What the API server asks of a policy (ValidateJob in pkg/apis/batch/validation/validation.go)."""
    spec = write("job", "--env", f"MULTINODE_APART={sweep}", "smoke").manifest["spec"]
    mistake, taken = spec["podFailurePolicy"]["rules"]

    assert (mistake["action"], mistake["onExitCodes"]["values"]) == (action, [2, 126, 127])
    assert mistake["onExitCodes"]["containerName"] == spec["template"]["spec"]["containers"][0]["name"]
    assert (taken["action"], taken["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
