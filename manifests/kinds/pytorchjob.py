"""PyTorchJob of the training operator (kubeflow.org/v1): elastic Workers as in the guide, or a Master and Workers."""

from __future__ import annotations

from typing import Any

from entrypoint.rendezvous.wait import MASTER_SECONDS
from manifests.fields import LABEL, read_name
from manifests.pod import limit_restarts, write_container, write_metadata, write_pod, write_template
from manifests.request import Job

CONTAINER = "pytorch"  # PyTorchJobDefaultContainerName; without it the webhook refuses the job
PORT = 23456  # PyTorchJobDefaultPort
MASTER, WORKER = "Master", "Worker"
# How long a pod waits for the name of the first Worker. The operator's init container waits for a Master; in an elastic
# job a pod that gives up is a restart, of which the job has so many.
WAIT = "MULTINODE_TIMEOUT"


def write_pytorchjob(job: Job) -> dict[str, Any]:
    """Return the manifest; raise Refusal for one that the operator would not take, or could not run."""
    check_names(job)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": write_metadata(job),
        "spec": write_spec(job),
    }


def write_spec(job: Job) -> dict[str, Any]:
    """Return the specification; in an elastic job torchrun starts ranks again, before their pod is.

    Without a backoffLimit the operator never fails a job whose pods are restarted OnFailure (PastBackoffLimit in
    pkg/core/job.go); at the limit it removes the pods, whose logs stay after any other end.
    """
    limit = limit_restarts(job.restarts, job.elastic[1] if job.elastic else job.workers)
    spec: dict[str, Any] = {
        "runPolicy": {"cleanPodPolicy": "None", "backoffLimit": limit},
        "nprocPerNode": str(job.nproc or "auto"),
    }
    if job.elastic:
        low, high = job.elastic
        policy = {"rdzvBackend": "c10d", "minReplicas": low, "maxReplicas": high, "maxRestarts": job.restarts}
        spec["elasticPolicy"] = policy
        counts = {WORKER: job.workers}
    else:
        counts = {MASTER: 1, WORKER: job.workers - 1}
    spec["pytorchReplicaSpecs"] = {kind: write_replica(job, count) for kind, count in counts.items() if count}
    return spec


def write_replica(job: Job, count: int) -> dict[str, Any]:
    """Return one kind of replica; restartPolicy belongs here, for the operator writes it over that of the pod."""
    container = write_container(CONTAINER, job.pod, job.words)
    if job.elastic and WAIT not in job.pod.variables:
        container["env"] += [{"name": WAIT, "value": str(MASTER_SECONDS)}]
    template = write_template(write_pod(job.pod, container))
    return {"replicas": count, "restartPolicy": "OnFailure", "template": template}


def list_variables(job: Job) -> dict[str, str]:
    """Return what the operator sets in the first pod; in every pod the same names.

    They come after the user's own, which are lost by it; other names of elastic.go are set where elasticPolicy has a
    field for them. Sources: setPodEnv in pkg/controller.v1/pytorch/envvar.go, GetMasterEnvVarGenerator in master.go and
    GetElasticEnvVarGenerator in elastic.go (kubeflow/training-operator v1.9.0).
    """
    found = {"PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": str(job.nproc or "auto")}
    if job.elastic:
        low, high = job.elastic
        return {
            **found,
            "PET_RDZV_ENDPOINT": f"{job.name}-worker-0:{PORT}",
            "PET_RDZV_BACKEND": "c10d",
            "PET_NNODES": f"{low}:{high}",
            "PET_MAX_RESTARTS": str(job.restarts),
        }
    place = {"MASTER_ADDR": f"{job.name}-master-0", "MASTER_PORT": str(PORT)}
    return {
        **found,
        **place,
        **{f"PET_{name}": value for name, value in place.items()},
        "WORLD_SIZE": str(job.workers * (job.nproc or 1)),
        "RANK": "0",
        "PET_NODE_RANK": "0",
        "PET_NNODES": str(job.workers),
    }


def check_names(job: Job) -> None:
    """Raise Refusal for a name to which the operator could not add that of a pod.

    Each pod has a service of its own name, which is a DNS label (GenGeneralName in pkg/controller.v1/common/util.go).
    """
    count = job.elastic[1] if job.elastic else job.workers
    suffix = max(f"-worker-{count - 1}", "-master-0", key=len)
    read_name(job.name, "--name", longest=LABEL - len(suffix))


def list_notes(job: Job) -> list[str]:
    """Return what somebody should know of this job before it runs.

    The container that the operator adds to Workers of a Master has other requests than limits, an image of its own, and
    no securityContext (initcontainer.go; PyTorchInitContainerImageDefault in pkg/config/config.go).
    Torch closes an elastic rendezvous half a minute after it has the fewest nodes (last_call_timeout in
    torch/distributed/elastic/rendezvous/dynamic_rendezvous.py).
    """
    if job.elastic and job.elastic[0] < job.workers:
        alike = f"{job.workers}:{job.elastic[1]}"
        return [
            f"training begins without pods that start 30 s after the first {job.elastic[0]}; --elastic {alike} waits"
        ]
    if job.elastic or job.workers == 1:
        return []
    added = "the init container that the operator adds to them"
    return [
        f"Workers are Burstable, not Guaranteed: {added} has smaller requests",
        f"Workers do not start where the `restricted` profile refuses {added}, or a node cannot pull its image, "
        f"alpine:3.10 of Docker Hub; --elastic {job.workers}:{job.workers} waits for all pods without it",
    ]
