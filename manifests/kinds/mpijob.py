"""MPIJob of the MPI operator (kubeflow.org/v2beta1): a launcher that starts ranks by ssh on its workers."""

from __future__ import annotations

from typing import Any

from manifests.pod import check_pod_names, limit_restarts, write_container, write_limits, write_metadata, write_template
from manifests.request import ManifestKind, Request
from multinode_image.mpi.keys import MOUNT, read_ssh_port

# One core is enough for the launcher: it starts ranks on the workers and none in its own pod.
SMALL = {"cpu": "1", "memory": "1Gi"}


def write_mpijob(request: Request) -> dict[str, Any]:
    """Return the manifest; raise Refusal for a name from which the operator could not make those of its pods.

    They are DNS labels (ValidateMPIJob in pkg/apis/kubeflow/validation/validation.go, mpi-operator v0.8.2).
    """
    check_pod_names(request, max(f"-worker-{request.workers - 1}", "-launcher", key=len))
    launcher = write_container("launcher", request, request.words, {"requests": SMALL, "limits": SMALL})
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": write_metadata(request),
        "spec": {
            "mpiImplementation": "Intel",
            "slotsPerWorker": request.processes,
            "sshAuthMountPath": MOUNT,
            "launcherCreationPolicy": "WaitForWorkersReady",  # it would wait for them itself, and give up
            "runPolicy": write_policy(request),
            "mpiReplicaSpecs": {
                "Launcher": write_replica(request, launcher, 1),
                "Worker": write_replica(request, write_worker(request), request.workers),
            },
        },
    }


def write_policy(request: Request) -> dict[str, Any]:
    """Return how often the launcher is started again, and how many pods a gang has: workers alone.

    The limit is that of the launcher's Job, which has one pod (newLauncherJob); workers have none, and one that is
    evicted fails the job (updateMPIJobStatus). A scheduler of gangs would wait for the launcher, too, which comes after
    them (calculateMinAvailable in pkg/controller/podgroup.go).
    """
    return write_limits(
        request,
        cleanPodPolicy="Running",
        backoffLimit=limit_restarts(request.max_restarts, 1),
        schedulingPolicy={"minAvailable": request.workers},
    )


def write_worker(request: Request) -> dict[str, Any]:
    """Return the container of a worker, which is ready when it listens; raise Refusal where no worker would."""
    probe = {"tcpSocket": {"port": read_ssh_port(request.variables)}}
    return {**write_container("worker", request, ["worker"]), "readinessProbe": probe}


def write_replica(request: Request, container: dict[str, Any], count: int) -> dict[str, Any]:
    """Return one kind of replica."""
    return {"replicas": count, "restartPolicy": "OnFailure", "template": write_template(request, container)}


KIND = ManifestKind(
    "mpijob",
    "an MPIJob",
    write_mpijob,
    starts_ranks=True,
    options=("--script", "--max-restarts"),
)
