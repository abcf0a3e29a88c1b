"""The pod of each kind of manifest: what it may do, its sizes, volumes, variables and place."""

from __future__ import annotations

import pytest

from manifests.kinds.pytorchjob import WAIT
from tests.support.manifests import JOBS, list_pods, list_templates, write


@pytest.mark.parametrize("kind", [*JOBS, "runtime", "prefetch"])
def test_a_pod_is_restricted(kind: str) -> None:
    """The `restricted` profile of the Pod Security Standards, and a root that is read-only."""
    for pod in list_pods(write(kind, "--uid", "123456").manifest):
        context = pod["securityContext"]
        assert context["runAsNonRoot"] and context["runAsUser"] == context["fsGroup"] == 123456
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_a_user_of_ten_digits_is_taken() -> None:
    """OpenShift gives every namespace such a range of users."""
    pods = list_pods(write("pytorchjob", "--uid", "1000680000").manifest)

    assert {pod["securityContext"]["runAsUser"] for pod in pods} == {1000680000}


@pytest.mark.parametrize("words", ["pytorchjob", "mpijob", "runtime", "runtime --policy mpi", "prefetch"])
def test_services_of_the_namespace_set_no_variables(words: str) -> None:
    """A Service that is called `master` sets MASTER_PORT=tcp://... in every pod of its namespace."""
    assert {pod.get("enableServiceLinks") for pod in list_pods(write(*words.split()).manifest)} == {False}


@pytest.mark.parametrize("words", [*JOBS, "runtime", "runtime --policy mpi", "prefetch"])
def test_a_pod_has_no_proxy_that_outlives_its_training(words: str) -> None:
    """The namespaces of Kubeflow's profiles ask Istio for one in every pod."""
    templates = list_templates(write(*words.split()).manifest)

    assert [each["metadata"] for each in templates] == [{"annotations": {"sidecar.istio.io/inject": "false"}}] * len(
        templates
    )


@pytest.mark.parametrize("kind", [*JOBS, "runtime", "prefetch"])
def test_a_pod_mounts_what_it_has_and_nothing_else(kind: str) -> None:
    for pod in list_pods(write(kind, "--pvc", "mine", "--shm", "1Gi").manifest):
        assert pod["volumes"] == [
            {"name": "storage", "persistentVolumeClaim": {"claimName": "mine"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "tmp", "emptyDir": {}},
        ]
        for container in pod["containers"]:
            places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            assert places == {"storage": "/workspace/output", "shm": "/dev/shm", "tmp": "/tmp"}


@pytest.mark.parametrize("kind", [*JOBS, "runtime", "prefetch"])
def test_a_pod_is_guaranteed(kind: str) -> None:
    manifest = write(kind).manifest
    sizes = [one.get("resources") for pod in list_pods(manifest) for one in pod["containers"]]
    if kind == "trainjob":
        sizes = [manifest["spec"]["trainer"]["resourcesPerNode"]]

    assert all(each["requests"] == each["limits"] and set(each["limits"]) == {"cpu", "memory"} for each in sizes)


@pytest.mark.parametrize("kind", [*JOBS, "runtime", "prefetch"])
def test_nodes_are_chosen_and_taints_tolerated(kind: str) -> None:
    words = ("--node-selector", "node-type=spr", "--toleration", "a=b:NoSchedule", "--toleration", "c")
    for pod in list_pods(write(kind, *words).manifest):
        assert pod["nodeSelector"] == {"node-type": "spr"}
        assert pod["tolerations"] == [
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
            {"key": "c", "operator": "Exists"},
        ]


@pytest.mark.parametrize("kind", [*JOBS, "runtime", "prefetch"])
def test_the_token_comes_from_a_secret_and_downloads_go_to_the_claim(kind: str) -> None:
    manifest = write(kind, "--token-secret", "hf:token", "--env", "LOGLEVEL=INFO").manifest
    found = [one.get("env") for pod in list_pods(manifest) for one in pod["containers"]]
    if kind == "trainjob":
        found = [manifest["spec"]["trainer"]["env"]]

    for variables in found:
        assert [row for row in variables if row["name"] != WAIT] == [
            {"name": "HF_HOME", "value": "/workspace/output/huggingface"},
            {"name": "LOGLEVEL", "value": "INFO"},
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
        ]


@pytest.mark.parametrize(
    ("typed", "rows"),
    [
        ("BASE=/workspace/output/x HF_HOME=$(BASE)/hf A=1", "BASE=/workspace/output/x HF_HOME=$(BASE)/hf A=1"),
        ("A=$(HF_HOME)/a B=1", "HF_HOME=/workspace/output/huggingface A=$(HF_HOME)/a B=1"),
    ],
)
def test_variables_keep_their_order(typed: str, rows: str) -> None:
    """Kubernetes puts in the value of a variable that comes before."""
    words = [word for each in typed.split() for word in ("--env", each)]

    [pod] = list_pods(write("prefetch", *words).manifest)

    assert [f"{row['name']}={row['value']}" for row in pod["containers"][0]["env"]] == rows.split()


@pytest.mark.parametrize("kind", [*JOBS, "prefetch"])
def test_a_job_has_a_place_and_a_queue(kind: str) -> None:
    metadata = write(kind, "--namespace", "kubeflow", "--queue", "training").manifest["metadata"]

    assert metadata["namespace"] == "kubeflow"
    assert metadata["labels"] == {"kueue.x-k8s.io/queue-name": "training"}
