"""MPIJob of the MPI operator (kubeflow.org/v2beta1): a launcher that starts ranks by ssh on its workers."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from entrypoint.errors import Refusal
from entrypoint.mpi.keys import MOUNT, read_checking, read_ssh_port
from entrypoint.rendezvous.wait import MASTER_SECONDS
from manifests.division import Division
from manifests.fields import LABEL, read_name
from manifests.pod import limit_restarts, write_container, write_metadata, write_pod, write_template
from manifests.request import Job

LAUNCHER, WORKER = "Launcher", "Worker"
# launcherEnvVars, workerEnvVars and intelEnvVars in pkg/controller/mpi_job_controller.go (mpi-operator v0.8.2).
OPERATORS = ("K_MPI_JOB_ROLE", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "I_MPI_PERHOST")
KEYS, WAIT = "MULTINODE_SSH_KEYS", "MULTINODE_TIMEOUT"
# The launcher starts ranks on the workers and none in its own pod: one process that waits, and mpirun.
SMALL = {"cpu": "1", "memory": "1Gi"}


def write_mpijob(job: Job, division: Division) -> dict[str, Any]:
    """Return the manifest; raise Refusal for one that the operator would not take."""
    launcher, worker = wait_longer(write_launcher("launcher", job), job), write_worker("worker", job)
    check_names(job)
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": write_metadata(job),
        "spec": {
            "mpiImplementation": "Intel",
            "slotsPerWorker": division.processes,
            "sshAuthMountPath": MOUNT,
            "launcherCreationPolicy": "WaitForWorkersReady",  # it would wait for them itself, and give up
            "runPolicy": write_policy(job),
            "mpiReplicaSpecs": {
                LAUNCHER: write_replica(job, launcher, 1, "OnFailure"),
                WORKER: write_replica(job, worker, job.workers, "OnFailure"),
            },
        },
    }


def write_policy(job: Job) -> dict[str, Any]:
    """Return how often the launcher is started again, and how many pods a gang has: workers alone.

    The limit is that of the launcher's Job, which has one pod (newLauncherJob); workers have none, and one that is
    evicted fails the job (updateMPIJobStatus). A scheduler of gangs would wait for the launcher, too, which comes after
    them (calculateMinAvailable in pkg/controller/podgroup.go).
    """
    return {
        "cleanPodPolicy": "Running",
        "backoffLimit": limit_restarts(job.restarts, 1),
        "schedulingPolicy": {"minAvailable": job.workers},
    }


def write_launcher(name: str, job: Job) -> dict[str, Any]:
    """Return the container of the launcher, for which one core is enough."""
    return write_container(name, job.pod, job.words, {"requests": SMALL, "limits": SMALL})


def wait_longer(launcher: dict[str, Any], job: Job) -> dict[str, Any]:
    """Return a launcher that waits for nodes which pull the image, if it is in a queue.

    Kueue suspends the job before there are workers, and then the operator makes the launcher at once: none of none are
    missing (countReadyWorkerPods in pkg/controller/mpi_job_controller.go, mpi-operator v0.8.0).
    """
    if not job.queue or WAIT in job.pod.variables:
        return launcher
    return {**launcher, "env": [*launcher["env"], {"name": WAIT, "value": str(MASTER_SECONDS)}]}


def write_worker(name: str, job: Job) -> dict[str, Any]:
    """Return the container of a worker, which is ready when it listens; raise Refusal where no worker would."""
    environ = job.pod.environ
    read_checking(environ)
    keys = environ.get(KEYS) or MOUNT
    if posixpath.normpath(keys) != MOUNT:
        fact = "the operator mounts the ssh key in another directory"
        raise Refusal(fact, f"--env {KEYS}={keys}, not {MOUNT}", f"leave {KEYS} out")
    probe = {"tcpSocket": {"port": read_ssh_port(environ)}}
    return {**write_container(name, job.pod, ["worker"]), "readinessProbe": probe}


def write_replica(job: Job, container: Mapping[str, Any], count: int, policy: str) -> dict[str, Any]:
    """Return one kind of replica."""
    template = write_template(write_pod(job.pod, container))
    return {"replicas": count, "restartPolicy": policy, "template": template}


def list_variables(job: Job) -> dict[str, str]:
    """Return what Intel MPI sets in the first rank on the first worker, which is where cores are divided."""
    count = job.nproc or 1
    return {
        "PMI_RANK": "0",
        "PMI_SIZE": str(job.workers * count),
        "MPI_LOCALRANKID": "0",
        "MPI_LOCALNRANKS": str(count),
        "MASTER_ADDR": f"{job.name}-worker-0",
    }


def check_names(job: Job) -> None:
    """Raise Refusal for a name to which the operator could not add those of its pods.

    The name of the last worker's pod is a DNS label, and so is the launcher's Job with the suffix of its pod
    (ValidateMPIJob in pkg/apis/kubeflow/validation/validation.go, mpi-operator v0.8.2).
    """
    read_name(job.name, "--name", longest=LABEL - len(max(f"-worker-{job.workers - 1}", "-launcher", key=len)))
