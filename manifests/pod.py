"""The pod of a job: its container, sizes, volumes and what it may do, which is as little as the image needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from manifests.request import Request, Volume, drop_empty
from multinode_image.errors import Refusal

# With a read-only root, an image writes in three places: results and downloads on the claim, the rest in /tmp (a home,
# a name for an unknown user, private keys), and what ranks of one node exchange in /dev/shm. The tests of images run
# them so.
STORAGE, TEMPORARY, SHARED, SCRIPTS = "storage", "tmp", "shm", "scripts"
# A proxy of Istio goes on after the training has ended, and the pod with it; it is put into the pods of each profile of
# Kubeflow. Every release reads this as an annotation, as a label only some do (injectRequired in
# pkg/kube/inject/inject.go of istio/istio, 1.6 to 1.27); the SDK of Kubeflow sets it, too.
OUTSIDE_MESH = {"sidecar.istio.io/inject": "false"}
SCRIPT_DIRECTORY = "/workspace/job"  # whose files a script imports, as Python does
GROUP = 0  # owns the directories of the image
LABEL = 63  # characters of a DNS label


def check_pod_names(request: Request, suffix: str) -> None:
    """Raise Refusal for a name that with a suffix is not that of a pod: a DNS label.

    Operators take it, and then cannot make the pods.
    """
    most = LABEL - len(suffix)
    if len(request.name) > most or not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", request.name):
        plain = re.sub(r"[^a-z0-9]+", "-", request.name.lower()).lstrip("0123456789-")[:most].strip("-")
        fact = f"--name takes small letters, digits and -, from a letter to a letter or digit, at most {most}"
        raise Refusal(fact, repr(request.name), f"--name {plain or 'transformers'}")


def write_variables(request: Request) -> list[dict[str, Any]]:
    """Return the variables of a pod: downloads on the claim, the user's own, and those from Secrets."""
    rows: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in request.variables.items()]
    for name, (secret, key) in request.env_secret.items():
        rows.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
    return rows


def write_sizes(request: Request) -> dict[str, Any]:
    """Return requests that equal the limits, which gives a pod the class Guaranteed."""
    size = {"cpu": str(request.cpu), "memory": request.memory, **drop_empty(**{"ephemeral-storage": request.disk})}
    return {"requests": size, "limits": size}


def write_mounts(request: Request) -> list[dict[str, Any]]:
    """Return where a container has its volumes."""
    claims = [
        drop_empty(name=name, mountPath=volume.path, subPath=volume.part or None, readOnly=volume.read_only or None)
        for name, volume in name_claims(request).items()
    ]
    scripts = [{"name": SCRIPTS, "mountPath": SCRIPT_DIRECTORY}] if request.script else []
    return [*claims, *scripts, {"name": SHARED, "mountPath": "/dev/shm"}, {"name": TEMPORARY, "mountPath": "/tmp"}]


def write_volumes(request: Request) -> list[dict[str, Any]]:
    """Return the volumes of a pod; what is in /dev/shm counts as its memory, and is bounded by it."""
    claims = name_claims(request).items()
    return [
        *({"name": name, "persistentVolumeClaim": {"claimName": volume.claim}} for name, volume in claims),
        *([{"name": SCRIPTS, "configMap": {"name": request.scripts, "defaultMode": 0o555}}] if request.script else []),
        {"name": SHARED, "emptyDir": drop_empty(medium="Memory", sizeLimit=request.shm)},
        {"name": TEMPORARY, "emptyDir": drop_empty(sizeLimit=request.disk)},
    ]


def name_claims(request: Request) -> dict[str, Volume]:
    """Return the claims by the names of their volumes."""
    first, *others = request.claims
    return {STORAGE: first, **{f"data-{number}": volume for number, volume in enumerate(others)}}


def restrict_pod(request: Request) -> dict[str, Any]:
    """Return the security context of a pod, as the `restricted` profile of the Pod Security Standards asks.

    The user is named, for the training operator adds a container whose image has root. The claim's files are given to
    the user's group once, not at every start.
    """
    return {
        "runAsNonRoot": True,
        "runAsUser": request.uid,
        "runAsGroup": GROUP,
        "fsGroup": request.uid,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def restrict_container() -> dict[str, Any]:
    """Return the security context of a container."""
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def write_container(
    name: str, request: Request, words: Sequence[str], sizes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a container that runs the image's own entrypoint with these arguments."""
    return {
        "name": name,
        "image": request.image,
        "imagePullPolicy": "IfNotPresent",
        "args": list(words),
        "env": write_variables(request),
        **drop_empty(envFrom=list(request.env_from)),
        "resources": dict(sizes or write_sizes(request)),
        "securityContext": restrict_container(),
        "volumeMounts": write_mounts(request),
    }


def write_template(request: Request, container: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the template of pods with one container.

    A Service of the namespace would set variables in them: one that is called `master` sets MASTER_PORT=tcp://...
    Nothing in them asks the API server, so they have no token for it.
    """
    spec = {
        **more,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        **write_rest(request, container),
    }
    return {"metadata": write_marks(request), "spec": spec}


def write_marks(request: Request) -> dict[str, Any]:
    """Return labels and annotations of pods."""
    return drop_empty(labels=dict(request.label), annotations={**OUTSIDE_MESH, **request.annotation})


def write_rest(request: Request, container: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a patch of a TrainJob has of a pod, too: who it is, on which nodes it may run, and its volumes."""
    return drop_empty(
        securityContext=restrict_pod(request),
        containers=[dict(container)],
        **request.pod,
        volumes=write_volumes(request),
    )


def write_limits(request: Request, **more: Any) -> dict[str, Any]:
    """Return how long a job may run, and when it is removed, by the names that Jobs and both old operators share."""
    return drop_empty(**more, **request.limits)


def limit_restarts(restarts: int, pods: int) -> int:
    """Return the backoffLimit under which so many pods are all started again so many times.

    The restarts of all pods are added up, and a job fails as soon as they reach the limit, or where that is 0, at the
    first (PastBackoffLimit in pkg/core/job.go of kubeflow/training-operator v1.9.0; pastBackoffLimitOnFailure in
    pkg/controller/job/job_controller.go of Kubernetes).
    """
    return restarts * pods + 1 if restarts else 0


def write_metadata(request: Request) -> dict[str, Any]:
    """Return the name of a job, its namespace, and its queue: Kueue reads a label of the job itself."""
    queue = {"kueue.x-k8s.io/queue-name": request.queue} if request.queue else {}
    labels = {**queue, **request.label}
    return drop_empty(
        name=request.name, namespace=request.namespace, labels=labels, annotations=dict(request.annotation)
    )


def write_scripts(request: Request) -> list[dict[str, Any]]:
    """Return the ConfigMap with the scripts of this machine, if there are any."""
    metadata = drop_empty(name=request.scripts, namespace=request.namespace)
    scripts = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(request.script)}
    return [scripts] if request.script else []
