"""PyTorchJob of the training operator (kubeflow.org/v1): elastic Workers as in the guide, or a Master and Workers."""

from __future__ import annotations

from typing import Any

from manifests.pod import check_pod_names, limit_restarts, write_container, write_limits, write_metadata, write_template
from manifests.request import ManifestKind, Request

CONTAINER = "pytorch"  # PyTorchJobDefaultContainerName; without it the webhook refuses the job
MASTER, WORKER = "Master", "Worker"


def write_pytorchjob(request: Request) -> dict[str, Any]:
    """Return the manifest; raise Refusal for a name from which the operator could not make those of its pods.

    Each pod has a service of its own name (GenGeneralName in pkg/controller.v1/common/util.go). Without a backoffLimit
    the operator never fails a job whose pods are restarted OnFailure (PastBackoffLimit in pkg/core/job.go); at the
    limit it removes the pods, whose logs stay after any other end.
    """
    pods = request.elastic[1] if request.elastic else request.workers
    check_pod_names(request, max(f"-worker-{pods - 1}", "-master-0", key=len))
    policy = write_limits(request, cleanPodPolicy="None", backoffLimit=limit_restarts(request.max_restarts, pods))
    spec: dict[str, Any] = {"runPolicy": policy, "nprocPerNode": str(request.nproc or "auto")}
    if request.elastic:
        low, high = request.elastic
        rendezvous = {
            "rdzvBackend": "c10d",
            "minReplicas": low,
            "maxReplicas": high,
            "maxRestarts": request.max_restarts,
        }
        spec["elasticPolicy"] = rendezvous
    counts = {WORKER: request.workers} if request.elastic else {MASTER: 1, WORKER: request.workers - 1}
    spec["pytorchReplicaSpecs"] = {kind: write_replica(request, number) for kind, number in counts.items() if number}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": write_metadata(request), "spec": spec}


def write_replica(request: Request, count: int) -> dict[str, Any]:
    """Return one kind of replica; restartPolicy belongs here, for the operator writes it over that of the pod."""
    container = write_container(CONTAINER, request, request.words)
    return {"replicas": count, "restartPolicy": "OnFailure", "template": write_template(request, container)}


def list_notes(request: Request) -> list[str]:
    """Return what somebody should know of this job before it runs.

    The container that the operator adds to Workers of a Master has an image of its own, and no securityContext
    (initcontainer.go; PyTorchInitContainerImageDefault in pkg/config/config.go).
    Torch closes an elastic rendezvous half a minute after it has the fewest nodes (last_call_timeout in
    torch/distributed/elastic/rendezvous/dynamic_rendezvous.py).
    """
    if request.elastic and request.elastic[0] < request.workers:
        low, high = request.elastic
        fact = f"training begins without pods that start 30 s after the first {low}"
        return [f"{fact}; --elastic {request.workers}:{high} waits"]
    if not request.elastic and request.workers > 1:
        fact = "Workers do not start where the `restricted` profile refuses the init container that the operator adds"
        instead = f"--elastic {request.workers}:{request.workers} waits without it"
        return [f"{fact}, or a node cannot pull its image, alpine:3.10 of Docker Hub; {instead}"]
    return []


KIND = ManifestKind(
    "pytorchjob",
    "a PyTorchJob, as in the Hugging Face guide",
    write_pytorchjob,
    list_notes=list_notes,
    counts_cores=True,
    options=("--script", "--elastic", "--max-restarts"),
)
