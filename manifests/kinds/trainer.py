"""Trainer v2 (trainer.kubeflow.org/v1alpha1): TrainJob, and a ClusterTrainingRuntime for those that share one.

`runtimePatches` are there since 2.2; 2.1 has `podTemplateOverrides` in their place, which nothing here writes.
"""

from __future__ import annotations

import shlex
from typing import Any

from manifests.pod import (
    check_pod_names,
    restrict_container,
    write_container,
    write_marks,
    write_metadata,
    write_mounts,
    write_rest,
    write_sizes,
    write_template,
    write_variables,
)
from manifests.request import TORCH_DISTRIBUTED, ManifestKind, Request, drop_empty
from multinode_image.tasks.command import SMOKE

API = "trainer.kubeflow.org/v1alpha1"
# The replicated job, and the container, that the plugins look for (pkg/constants/constants.go).
NODE = "node"
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
    check_pod_names(request, f"-{NODE}-0-{request.workers - 1}-abcde")
    trainer = {
        "image": request.image,
        "args": list(request.words),
        "env": write_variables(request),
        "numNodes": request.workers,
        "numProcPerNode": request.processes,
        "resourcesPerNode": write_sizes(request),
    }
    spec = drop_empty(runtimeRef={"name": request.runtime}, **request.limits, trainer=trainer)
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
    template = {"metadata": write_marks(request), "spec": write_rest(request, container)}
    jobs = [{"name": NODE, "template": {"spec": {"template": template}}}]
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def write_runtime(request: Request) -> dict[str, Any]:
    """Return the manifest of a ClusterTrainingRuntime, whose TrainJobs need only say what they train.

    A pod that ends in an error ends them all, for the others wait for it; JobSet then starts all of them again. It has
    no ttlSecondsAfterFinished: a failed TrainJob would begin anew when its JobSet is removed (kubeflow/trainer#3779).
    """
    check_pod_names(request, "")
    metadata, failure = write_metadata(request), {"failurePolicy": {"maxRestarts": request.max_restarts}}
    return {
        "apiVersion": API,
        "kind": "ClusterTrainingRuntime",
        "metadata": {**metadata, "labels": {"trainer.kubeflow.org/framework": "torch", **request.label}},
        "spec": {
            "mlPolicy": {"numNodes": request.workers, "torch": {}},
            "template": {"spec": {**failure, **write_torch_jobs(request)}},
        },
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
    template = write_template(request, container, restartPolicy="Never")
    template["spec"]["volumes"] += [{"name": "home", "emptyDir": {}}]
    step = {**STEP, "spec": {"backoffLimit": 0, "template": template}}  # JobSet starts all pods again
    return {"replicatedJobs": [{"name": NODE, "replicas": 1, "template": step}]}


def list_job_notes(request: Request) -> list[str]:
    """Return how often the pods of a TrainJob start again with the runtime of Trainer, and what to type for more."""
    if request.runtime != TORCH_DISTRIBUTED:
        return []
    most = (BACKOFF_LIMIT - 1) // request.workers
    again = f"all pods start again, {most} time(s) at most, and at the next crash the job fails"
    fact = f"when one of {request.workers} pod(s) crashes, {again if most else 'the job fails'}"
    nproc = ["--nproc", str(request.nproc)] if request.nproc else []
    sizes = ["--workers", str(request.workers), "--cpu", str(request.cpu), "--memory", request.memory, *nproc]
    place = ["--pvc", request.pvc, "--image", request.image, SMOKE.name]  # a TrainJob says itself what it trains
    runtime = shlex.join(["python", "scripts/manifest.py", RUNTIME.name, *sizes, *place])
    return [
        f"{fact}: {TORCH_DISTRIBUTED}, the runtime of Trainer, allows no more. "
        f"For 10 times, make a runtime of your own once: {runtime} | kubectl apply -f -; "
        f"then add --runtime {RUNTIME.default_name} to this command"
    ]


def list_runtime_notes(request: Request) -> list[str]:
    """Return what TrainJobs of a runtime have to say themselves, for a runtime cannot (v2.3.0)."""
    return [
        f"numProcPerNode: {request.processes} belongs into each TrainJob; Trainer starts a process for each CPU "
        "without it, as for a CustomTrainer of Kubeflow's SDK, whose resources_per_node can ask for fewer"
    ]


# The definition of a TrainJob's patch does not know what it lacks (v2.3.0).
TRAINJOB = ManifestKind(
    "trainjob",
    "a TrainJob of Trainer v2",
    write_trainjob,
    list_notes=list_job_notes,
    options=("--script", "--runtime"),
    lacks=("--priority-class", "--env-from", "--ttl"),
)
RUNTIME = ManifestKind(
    "runtime",
    "a ClusterTrainingRuntime of Trainer v2, for TrainJobs that share it",
    write_runtime,
    list_notes=list_runtime_notes,
    default_name="multinode",
    is_job=False,
    runs=False,
    options=("--max-restarts",),
)
