"""The pod of a job: its container, sizes, volumes and what it may do, which is as little as the image needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from entrypoint.errors import Refusal
from manifests.request import Job, Pod

# With a read-only root, an image writes in three places: results and downloads on the claim, the rest in /tmp (a home,
# a name for an unknown user, private keys), and what ranks of one node exchange in /dev/shm. The tests of images run
# them so.
STORAGE, TEMPORARY, SHARED = "storage", "tmp", "shm"
# A proxy of Istio goes on after the training has ended, and the pod with it; it is put into the pods of each profile of
# Kubeflow. Every release reads this as an annotation, as a label only some do (injectRequired in
# pkg/kube/inject/inject.go of istio/istio, 1.6 to 1.27); the SDK of Kubeflow sets it, too.
OUTSIDE_MESH = {"sidecar.istio.io/inject": "false"}
# Group 0 owns the directories of the image.
GROUP = 0


def check_variables(pod: Pod, operators: Collection[str]) -> None:
    """Raise Refusal for a variable that the operator writes again: the last of a name counts, and that is its own."""
    taken = [name for name in pod.variables if name in operators]
    if taken:
        raise Refusal("the operator sets this variable itself", f"--env {taken[0]}", f"leave {taken[0]} out")


def write_variables(pod: Pod) -> list[dict[str, Any]]:
    """Return the variables of a pod: downloads on the claim, the user's own, and the token from its Secret."""
    rows: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in pod.listed.items()]
    if pod.token:
        name, key = pod.token
        rows.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}})
    return rows


def write_sizes(pod: Pod) -> dict[str, Any]:
    """Return requests that equal the limits, which gives a pod the class Guaranteed."""
    size = {"cpu": pod.cpu, "memory": pod.memory}
    return {"requests": size, "limits": size}


def write_mounts(pod: Pod) -> list[dict[str, str]]:
    """Return where a container has its volumes."""
    return [
        {"name": STORAGE, "mountPath": pod.mount},
        {"name": SHARED, "mountPath": "/dev/shm"},
        {"name": TEMPORARY, "mountPath": "/tmp"},
    ]


def write_volumes(pod: Pod) -> list[dict[str, Any]]:
    """Return the volumes of a pod; what is in /dev/shm counts as its memory, and is bounded by it."""
    memory = {"medium": "Memory", **({"sizeLimit": pod.shm} if pod.shm else {})}
    return [
        {"name": STORAGE, "persistentVolumeClaim": {"claimName": pod.claim}},
        {"name": SHARED, "emptyDir": memory},
        {"name": TEMPORARY, "emptyDir": {}},
    ]


def restrict_pod(pod: Pod) -> dict[str, Any]:
    """Return the security context of a pod, as the `restricted` profile of the Pod Security Standards asks.

    The user is named, for the training operator adds a container whose image has root. The claim's files are given to
    the user's group once, not at every start.
    """
    return {
        "runAsNonRoot": True,
        "runAsUser": pod.uid,
        "runAsGroup": GROUP,
        "fsGroup": pod.uid,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def restrict_container() -> dict[str, Any]:
    """Return the security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def write_container(
    name: str, pod: Pod, words: Sequence[str], sizes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a container that runs the image's own entrypoint with these arguments."""
    return {
        "name": name,
        "image": pod.image,
        "imagePullPolicy": "IfNotPresent",
        "args": list(words),
        "env": write_variables(pod),
        "resources": dict(sizes or write_sizes(pod)),
        "securityContext": restrict_container(),
        "volumeMounts": write_mounts(pod),
    }


def write_pod(pod: Pod, container: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the specification of a pod with one container.

    A Service of the namespace would set variables in it: one that is called `master` sets MASTER_PORT=tcp://...
    """
    return {
        **more,
        "enableServiceLinks": False,
        "securityContext": restrict_pod(pod),
        "containers": [dict(container)],
        **write_placement(pod),
        "volumes": write_volumes(pod),
    }


def write_template(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template of pods with this specification, or of a patch to them."""
    return {"metadata": {"annotations": dict(OUTSIDE_MESH)}, "spec": dict(spec)}


def limit_restarts(restarts: int, pods: int) -> int:
    """Return the backoffLimit under which so many pods are all started again so many times.

    The restarts of all pods are added up, and a job fails as soon as they reach the limit, or where that is 0, at the
    first (PastBackoffLimit in pkg/core/job.go of kubeflow/training-operator v1.9.0; pastBackoffLimitOnFailure in
    pkg/controller/job/job_controller.go of Kubernetes).
    """
    return restarts * pods + 1 if restarts else 0


def write_placement(pod: Pod) -> dict[str, Any]:
    """Return on which nodes a pod may run."""
    selector = {"nodeSelector": dict(pod.selector)} if pod.selector else {}
    return selector | ({"tolerations": [dict(each) for each in pod.tolerations]} if pod.tolerations else {})


def write_metadata(job: Job) -> dict[str, Any]:
    """Return the name of a job, its namespace, and its queue: Kueue reads a label of the job itself."""
    place = {"namespace": job.namespace} if job.namespace else {}
    return {"name": job.name, **place, **({"labels": {"kueue.x-k8s.io/queue-name": job.queue}} if job.queue else {})}
