"""An Indexed Job of Kubernetes (batch/v1) with a headless Service, by which its pods find each other: no operator."""

from __future__ import annotations

from typing import Any

from entrypoint.addresses import PORT
from manifests.pod import check_pod_names, limit_restarts, write_container, write_limits, write_metadata, write_template
from manifests.request import OF_JOBS, ManifestKind, Request, keep

# The controller labels the pods of a Job (pkg/apis/batch/v1/types.go, JobNameLabel), and gives each a host name with
# its number, which is known below the Service that the pods name as their subdomain.
SELECTOR = "batch.kubernetes.io/job-name"


def write_indexed(request: Request) -> dict[str, Any]:
    """Return the manifest of the Job; raise Refusal for a name from which no names of pods can be made.

    Each pod has its number in JOB_COMPLETION_INDEX, which the entrypoint takes for that of its node. One that fails is
    made anew, and the others, whose collective has failed, too.
    """
    check_pod_names(request, f"-{request.workers - 1}-abcde")
    container = write_container("node", request, request.words)
    nproc = {"PET_NPROC_PER_NODE": str(request.nproc)} if request.nproc else {}
    meeting = {"PET_NNODES": str(request.workers), **nproc, "PET_MASTER_ADDR": f"{request.name}-0.{request.name}"}
    container["env"] += [{"name": name, "value": value} for name, value in meeting.items()]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": write_metadata(request),
        "spec": {
            "completionMode": "Indexed",
            "completions": request.workers,
            "parallelism": request.workers,
            **write_limits(request, backoffLimit=limit_restarts(request.max_restarts, request.workers)),
            "template": write_template(request, container, restartPolicy="Never", subdomain=request.name),
        },
    }


def write_service(request: Request) -> dict[str, Any]:
    """Return the manifest of the Service, which names pods before they are ready: they wait for each other."""
    metadata = keep(name=request.name, namespace=request.namespace)
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
    write_needed=lambda request: [write_service(request)],
    counts_cores=True,
    options=(*OF_JOBS, "--script", "--max-restarts", "--ttl"),
)
