"""An Indexed Job of Kubernetes (batch/v1) with a headless Service, by which its pods find each other: no operator.

With MULTINODE_APART it is a sweep: each pod trains by itself, with its number for a parameter, and there is no Service.

What a Job has, and is not set: a successPolicy, for pods end together, and the others may still write when the first is
done; a backoffLimitPerIndex of a job that trains as one, whose pods fail together; a ttlSecondsAfterFinished that
nobody asked for, with which the log of a job would be gone.
"""

from __future__ import annotations

from typing import Any

from manifests.pod import check_pod_names, limit_restarts, write_container, write_limits, write_metadata, write_template
from manifests.request import INDEX, ManifestKind, Request, drop_empty
from multinode_image.errors import EXIT_USER, NOT_EXECUTABLE, NOT_FOUND
from multinode_image.reading import PORT

# The controller labels the pods of a Job (pkg/apis/batch/v1/types.go, JobNameLabel), since 1.27 by this name as well as
# by `job-name`, and gives each a host name with its number, known below the Service that the pods name as subdomain.
SELECTOR = "batch.kubernetes.io/job-name"
# Kubernetes expands a variable in those behind it alone, and adds this one at the end where nobody has defined it
# (addCompletionIndexEnvVariable in pkg/controller/job/indexed_job_utils.go).
NUMBER = {
    "name": INDEX,
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}},
}
CONTAINER = "node"


def write_indexed(request: Request) -> dict[str, Any]:
    """Return the manifest of the Job; raise Refusal for a name from which no names of pods can be made.

    Each pod has its number in JOB_COMPLETION_INDEX, which the entrypoint takes for that of its node. One that fails is
    made anew, and the others, whose collective has failed, too.
    """
    check_pod_names(request, f"-{request.workers - 1}-abcde")
    container = write_container(CONTAINER, request, request.words)
    container["env"] = [NUMBER, *container["env"]] if request.is_sweep else [*container["env"], *write_meeting(request)]
    subdomain = {} if request.is_sweep else {"subdomain": request.name}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": write_metadata(request),
        "spec": {
            "completionMode": "Indexed",
            "completions": request.workers,
            "parallelism": request.workers,
            **write_limits(request, **write_restarts(request)),
            "template": write_template(request, container, restartPolicy="Never", **subdomain),
        },
    }


def write_meeting(request: Request) -> list[dict[str, Any]]:
    """Return the variables by which pods train as one job."""
    nproc = {"PET_NPROC_PER_NODE": str(request.nproc)} if request.nproc else {}
    meeting = {"PET_NNODES": str(request.workers), **nproc, "PET_MASTER_ADDR": f"{request.name}-0.{request.name}"}
    return [{"name": name, "value": value} for name, value in meeting.items()]


def write_restarts(request: Request) -> dict[str, Any]:
    """Return how often pods are made anew.

    A pod that is taken away (evicted, drained, preempted) has not failed, and a mistake of the user's fails again. A
    policy also keeps the next pod away until the old one has ended, and written its last checkpoint
    (podReplacementPolicy is Failed with it).
    """
    codes = {"containerName": CONTAINER, "operator": "In", "values": [EXIT_USER, NOT_EXECUTABLE, NOT_FOUND]}
    rules = [
        {"action": "FailIndex" if request.is_sweep else "FailJob", "onExitCodes": codes},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    limit = {"backoffLimitPerIndex": request.max_restarts}
    if not request.is_sweep:
        limit = {"backoffLimit": limit_restarts(request.max_restarts, request.workers)}
    return {**limit, "podFailurePolicy": {"rules": rules}}


def write_service(request: Request) -> dict[str, Any]:
    """Return the manifest of the Service, which names pods before they are ready: they wait for each other."""
    metadata = drop_empty(name=request.name, namespace=request.namespace)
    ports = [{"name": "rendezvous", "port": PORT}]
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {SELECTOR: request.name},
        "ports": ports,
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


KIND = ManifestKind(
    "job",
    "an Indexed Job with its Service, where no operator is installed",
    write_indexed,
    write_needed=lambda request: [] if request.is_sweep else [write_service(request)],
    sweeps=True,
    counts_cores=True,
    options=("--script", "--max-restarts"),
)
