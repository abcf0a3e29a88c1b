"""Trainer v2 (trainer.kubeflow.org/v1alpha1): TrainJob, and a ClusterTrainingRuntime for those that share one.

`runtimePatches` are there since 2.2; 2.1 has `podTemplateOverrides` in their place, which nothing here writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entrypoint.mpi.keys import MOUNT
from manifests.kinds.mpijob import write_launcher, write_worker
from manifests.pod import (
    OUTSIDE_MESH,
    check_name,
    restrict_container,
    write_container,
    write_metadata,
    write_mounts,
    write_rest,
    write_sizes,
    write_template,
    write_variables,
)
from manifests.request import MPI, TORCH_DISTRIBUTED, Request, keep

API = "trainer.kubeflow.org/v1alpha1"
# The replicated jobs, and the container, that the plugins look for (pkg/constants/constants.go).
NODE, LAUNCHER = "node", "launcher"
MANAGER = "multinode/manifest"
STEP = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}}
# backoffLimit of a Job that names none, as that of torch-distributed (SetDefaults_Job in pkg/apis/batch/v1/defaults.go
# of Kubernetes). JobSet restarts its containers OnFailure, and a Job fails as soon as restarts reach this number.
BACKOFF_LIMIT = 6
# A CustomTrainer of Kubeflow's SDK writes its function into the working directory, and pip what it needs below HOME
# (kubeflow 0.5, get_command_using_train_func; kubeflow/sdk#89).
HOME = "/home/multinode"


def write_trainjob(request: Request) -> dict[str, Any]:
    """Return the manifest; raise Refusal for a name from which JobSet could not make those of its pods.

    Kubernetes adds five letters to them (ValidateCreate in pkg/webhooks/jobset_webhook.go of kubernetes-sigs/jobset).
    numProcPerNode is always written: left out, the torch plugin starts a process for each CPU of the request
    (getNumCPUPerNode in pkg/runtime/framework/plugins/torch/torch.go).
    """
    check_name(request, f"-{NODE}-0-{request.workers - 1}-abcde")
    trainer = {
        "image": request.image,
        "args": list(request.words),
        "env": write_variables(request),
        "numNodes": request.workers,
        "numProcPerNode": request.processes,
        "resourcesPerNode": write_sizes(request),
    }
    spec = keep(runtimeRef={"name": request.runtime}, activeDeadlineSeconds=request.deadline, trainer=trainer)
    return {
        "apiVersion": API,
        "kind": "TrainJob",
        "metadata": write_metadata(request),
        "spec": {**spec, "runtimePatches": [write_patch(request)]},
    }


def write_patch(request: Request) -> dict[str, Any]:
    """Return what the pods of a runtime get besides: volumes, nodes, and what they may not do.

    Variables are not here: the webhook refuses those of the container `node` in a patch. Neither are enableServiceLinks
    and automountServiceAccountToken, which the definition of a patch does not know (v2.3.0).
    """
    container = {"name": NODE, "securityContext": restrict_container(), "volumeMounts": write_mounts(request)}
    template = {"metadata": {"annotations": dict(OUTSIDE_MESH)}, "spec": write_rest(request, container)}
    jobs = [{"name": NODE, "template": {"spec": {"template": template}}}]
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def write_runtime(request: Request) -> dict[str, Any]:
    """Return the manifest of a ClusterTrainingRuntime, whose TrainJobs need only say what they train.

    A pod that ends in an error ends them all, for the others wait for it; JobSet then starts all of them again. It has
    no ttlSecondsAfterFinished: a failed TrainJob would begin anew when its JobSet is removed (kubeflow/trainer#3779).
    """
    check_name(request, "")
    failure = {"failurePolicy": {"maxRestarts": request.max_restarts}}
    if request.policy == MPI:
        ranks, jobs = {"numNodes": 1, "mpi": write_mpi(request)}, write_mpi_jobs(request)
    else:
        ranks, jobs = {"numNodes": request.workers, "torch": {}}, write_torch_jobs(request)
    return {
        "apiVersion": API,
        "kind": "ClusterTrainingRuntime",
        "metadata": {**write_metadata(request), "labels": {"trainer.kubeflow.org/framework": request.policy}},
        "spec": {"mlPolicy": ranks, "template": {"spec": {**failure, **jobs}}},
    }


def write_torch_jobs(request: Request) -> dict[str, Any]:
    """Return the one job of a runtime for torch, whose pods have a home that can be written, and work in it.

    A script with a relative path is one of the image's working directory, and is started there.
    """
    container = write_container(NODE, request, request.words)
    container["env"] = [{"name": "HOME", "value": HOME}, *container["env"]]
    if not request.words[0].endswith(".py") or request.words[0].startswith("/"):
        container["workingDir"] = HOME
    container["volumeMounts"] += [{"name": "home", "mountPath": HOME}]
    step = write_step(request, container)
    step["spec"]["template"]["spec"]["volumes"] += [{"name": "home", "emptyDir": {}}]
    return {"replicatedJobs": [{"name": NODE, "replicas": 1, "template": {**STEP, **step}}]}


def write_mpi_jobs(request: Request) -> dict[str, Any]:
    """Return the jobs of a runtime for MPI: nodes that listen, and a launcher that is made when all of them do.

    Trainer knows the dialect of Open MPI alone (EnforceMLPolicy in pkg/runtime/framework/plugins/mpi/mpi.go, v2.3.0): a
    hostfile, keys, and four variables. The entrypoint reads that hostfile and starts the image's own MPI. How many
    nodes there are is said by their job, or by a TrainJob: of mlPolicy.numNodes Trainer makes as many launchers
    (newRuntimeInfo in pkg/runtime/core/trainingruntime.go).
    """
    nodes = write_step(request, write_worker(NODE, request))
    nodes["spec"] |= {"parallelism": request.workers, "completions": request.workers}
    launcher = {**STEP, **write_step(request, write_launcher(NODE, request))}
    after = [{"name": NODE, "status": "Ready"}]
    return {
        "network": {"publishNotReadyAddresses": True},  # sshd is asked for by name before all are ready
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [LAUNCHER]},
        "replicatedJobs": [
            {"name": NODE, "replicas": 1, "template": nodes},
            {"name": LAUNCHER, "replicas": 1, "dependsOn": after, "template": launcher},
        ],
    }


def write_mpi(request: Request) -> dict[str, Any]:
    """Return the policy; runLauncherAsNode would take the launcher for a node of the cores' size."""
    return {
        "mpiImplementation": "OpenMPI",
        "numProcPerNode": request.processes,
        "sshAuthMountPath": MOUNT,
        "runLauncherAsNode": False,
    }


def write_step(request: Request, container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template of a replicated job; JobSet starts all pods again when one ends in an error."""
    return {"spec": {"backoffLimit": 0, "template": write_template(request, container, restartPolicy="Never")}}


def list_job_notes(request: Request) -> list[str]:
    """Return how many crashes a TrainJob survives with the runtime of Trainer; of another what it has to be.

    The image and the sizes of a TrainJob go to the replicated job that trains, which with the mpi policy is the
    launcher (newRuntimeInfo in pkg/runtime/core/trainingruntime.go, v2.3.0).
    """
    if request.runtime != TORCH_DISTRIBUTED:
        fact = f"{request.runtime} has to be a runtime of torch"
        return [f"{fact}: with the mpi policy this image and these sizes would be those of the launcher alone"]
    most = (BACKOFF_LIMIT - 1) // request.workers
    fact = f"with {request.runtime} a job fails at restart {BACKOFF_LIMIT} of all its pods together"
    return [
        f"{fact}: {request.workers} pod(s) survive {most} crash(es); "
        "a runtime of your own, by the kind `runtime` with more --max-restarts, allows more"
    ]


def list_runtime_notes(request: Request) -> list[str]:
    """Return what TrainJobs of a runtime have to say themselves, for a runtime cannot (v2.3.0)."""
    if request.policy == MPI:
        return []
    return [
        f"numProcPerNode: {request.processes} belongs into each TrainJob; Trainer starts a process for each CPU "
        "without it, as for a CustomTrainer of Kubeflow's SDK, whose resources_per_node can ask for fewer"
    ]
