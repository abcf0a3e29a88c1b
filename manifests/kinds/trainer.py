"""Trainer v2 (trainer.kubeflow.org/v1alpha1): TrainJob, and a ClusterTrainingRuntime for those that share one.

`runtimePatches` are there since 2.2; 2.1 has `podTemplateOverrides` in their place, which nothing here writes.
"""

from __future__ import annotations

from typing import Any

from entrypoint.errors import Refusal
from manifests.division import Division
from manifests.fields import LABEL, read_name
from manifests.pod import (
    restrict_container,
    restrict_pod,
    write_container,
    write_metadata,
    write_mounts,
    write_placement,
    write_pod,
    write_sizes,
    write_template,
    write_variables,
    write_volumes,
)
from manifests.request import TORCH_DISTRIBUTED, Job

API = "trainer.kubeflow.org/v1alpha1"
NODE = "node"  # the replicated job, and its container, that the torch plugin looks for (pkg/constants/constants.go)
PORT = 29500  # ContainerTrainerPort
MANAGER = "multinode/manifest"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
# TorchRunReservedEnvNames and MPIReservedEnvNames in pkg/constants/constants.go (v2.3.0).
RESERVED = (
    "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT",
    "OMPI_MCA_orte_default_hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames", "OMPI_MCA_orte_set_default_slots",
    "OMPI_MCA_plm_rsh_args",
)  # fmt: skip
# backoffLimit of a Job that names none, as that of torch-distributed (SetDefaults_Job in pkg/apis/batch/v1/defaults.go
# of Kubernetes). JobSet restarts its containers OnFailure, and a Job fails as soon as restarts reach this number.
BACKOFF_LIMIT = 6
MOST_VARIABLES = 128  # maxItems of spec.trainer.env in the definition


def write_trainjob(job: Job, division: Division) -> dict[str, Any]:
    """Return the manifest of a TrainJob; raise Refusal for one that the webhook or the definition refuses.

    numProcPerNode is always written: left out, the torch plugin starts a process for each CPU of the request
    (getNumCPUPerNode in pkg/runtime/framework/plugins/torch/torch.go).
    """
    check_name(job)
    trainer = {
        "image": job.pod.image,
        "args": list(job.words),
        "env": write_variables(job.pod),
        "numNodes": job.workers,
        "numProcPerNode": division.processes,
        "resourcesPerNode": write_sizes(job.pod),
    }
    return {
        "apiVersion": API,
        "kind": "TrainJob",
        "metadata": write_metadata(job),
        "spec": {"runtimeRef": {"name": job.runtime}, "trainer": trainer, "runtimePatches": [write_patch(job)]},
    }


def write_patch(job: Job) -> dict[str, Any]:
    """Return what the pods of a runtime get besides: volumes, nodes, and what they may not do.

    Variables are not here: the webhook refuses those of the container `node` in a patch. Neither is enableServiceLinks,
    which the definition of a patch does not know (v2.3.0).
    """
    container = {"name": NODE, "securityContext": restrict_container(), "volumeMounts": write_mounts(job.pod)}
    pod = {
        "securityContext": restrict_pod(job.pod),
        "containers": [container],
        **write_placement(job.pod),
        "volumes": write_volumes(job.pod),
    }
    jobs = [{"name": NODE, "template": {"spec": {"template": write_template(pod)}}}]
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def write_runtime(job: Job) -> dict[str, Any]:
    """Return the manifest of a ClusterTrainingRuntime, whose TrainJobs need only say what they train.

    A pod that ends in an error ends them all, for the others wait for it; JobSet then starts all of them again.
    """
    container = write_container(NODE, job.pod, job.words)
    pod = write_pod(job.pod, container, restartPolicy="Never")
    step = {"metadata": {"labels": {STEP: "trainer"}}, "spec": {"backoffLimit": 0, "template": write_template(pod)}}
    jobs = {"replicatedJobs": [{"name": NODE, "replicas": 1, "template": step}]}
    return {
        "apiVersion": API,
        "kind": "ClusterTrainingRuntime",
        "metadata": {**write_metadata(job), "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": job.workers, "torch": {}},
            "template": {"spec": {"failurePolicy": {"maxRestarts": job.restarts}, **jobs}},
        },
    }


def list_variables(job: Job) -> dict[str, str]:
    """Return what the torch plugin sets in the first pod, without the number of processes if that is to be found.

    Source: EnforceMLPolicy in pkg/runtime/framework/plugins/torch/torch.go (kubeflow/trainer v2.3.0).
    """
    return {
        "PET_NNODES": str(job.workers),
        "PET_NPROC_PER_NODE": str(job.nproc or "auto"),
        "PET_NODE_RANK": "0",
        "PET_MASTER_ADDR": f"{job.name}-{NODE}-0-0.{job.name}",
        "PET_MASTER_PORT": str(PORT),
    }


def list_job_notes(job: Job) -> list[str]:
    """Return how many crashes a TrainJob survives with the runtime of Trainer; of another what it has to be.

    The image and the sizes of a TrainJob go to the replicated job that trains, which with the mpi policy is the
    launcher (newRuntimeInfo in pkg/runtime/core/trainingruntime.go, v2.3.0).
    """
    if job.runtime != TORCH_DISTRIBUTED:
        fact = f"{job.runtime} has to be a runtime of torch"
        return [f"{fact}: with the mpi policy this image and these sizes would be those of the launcher alone"]
    most = (BACKOFF_LIMIT - 1) // job.workers
    fact = f"with {job.runtime} a job fails at restart {BACKOFF_LIMIT} of all its pods together"
    return [
        f"{fact}: {job.workers} pod(s) survive {most} crash(es); "
        "a runtime of your own, by the kind `runtime` with more --max-restarts, allows more"
    ]


def list_notes(division: Division) -> list[str]:
    """Return what TrainJobs of a runtime have to say themselves, for a runtime cannot (v2.3.0)."""
    count = division.processes
    return [f"numProcPerNode: {count} belongs into each TrainJob; Trainer starts a process for each CPU without it"]


def check_name(job: Job) -> None:
    """Raise Refusal for a name to which JobSet could not add those of its jobs and pods.

    The definition of TrainJob asks for a DNS label (x-kubernetes-validations of its metadata.name). So does JobSet for
    the names of pods, to which Kubernetes adds five letters (ValidateCreate in pkg/webhooks/jobset_webhook.go of
    kubernetes-sigs/jobset).
    """
    read_name(job.name, "--name", longest=LABEL - len(f"-{NODE}-0-{job.workers - 1}-abcde"))


def check_variables(job: Job) -> None:
    """Raise Refusal for variables that the torch and MPI plugins reserve (their Validate), and for too many of them."""
    taken = [name for name in job.pod.variables if name in RESERVED]
    if taken:
        raise Refusal("Trainer keeps this variable to itself", f"--env {taken[0]}", f"leave {taken[0]} out")
    count = len(write_variables(job.pod))
    if count > MOST_VARIABLES:
        raise Refusal(f"a TrainJob takes at most {MOST_VARIABLES} variables", count, "fewer --env")
