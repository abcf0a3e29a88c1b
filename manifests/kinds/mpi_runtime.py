"""ClusterTrainingRuntime with the MPI policy of Trainer v2: a launcher that starts ranks by ssh on a TrainJob's nodes.

Trainer knows the dialect of Open MPI alone (the Enum of mpiImplementation, and EnforceMLPolicy in
pkg/runtime/framework/plugins/mpi/mpi.go, v2.3.0): a hostfile, keys, and four variables. The entrypoint reads that
hostfile and starts the ranks with the image's own MPI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entrypoint.mpi.keys import MOUNT
from manifests.division import Division
from manifests.kinds.mpijob import write_launcher, write_worker
from manifests.kinds.trainer import API, NODE, STEP
from manifests.pod import write_metadata, write_pod, write_template
from manifests.request import Job

LAUNCHER = "launcher"  # the replicated job that the plugin gives a hostfile (pkg/constants/constants.go)


def write_mpi_runtime(job: Job, division: Division) -> dict[str, Any]:
    """Return the manifest of a runtime; raise Refusal for one that Trainer would not take.

    mlPolicy has one node, for Trainer makes as many launchers of it (newRuntimeInfo in
    pkg/runtime/core/trainingruntime.go); how many nodes there are is said by their job, or by a TrainJob.
    """
    launcher = write_step(job, write_launcher(NODE, job))
    launcher["metadata"] = {"labels": {STEP: "trainer"}}
    nodes = write_step(job, write_worker(NODE, job))
    nodes["spec"] |= {"parallelism": job.workers, "completions": job.workers}
    # The launcher is made when all nodes listen, as that of deepspeed-distributed is.
    after = [{"name": NODE, "status": "Ready"}]
    return {
        "apiVersion": API,
        "kind": "ClusterTrainingRuntime",
        "metadata": {**write_metadata(job), "labels": {"trainer.kubeflow.org/framework": "mpi"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "mpi": write_policy(division)},
            "template": {
                "spec": {
                    "network": {"publishNotReadyAddresses": True},  # sshd is asked for by name before all are ready
                    "successPolicy": {"operator": "All", "targetReplicatedJobs": [LAUNCHER]},
                    "failurePolicy": {"maxRestarts": job.restarts},
                    "replicatedJobs": [
                        {"name": NODE, "replicas": 1, "template": nodes},
                        {"name": LAUNCHER, "replicas": 1, "dependsOn": after, "template": launcher},
                    ],
                }
            },
        },
    }


def write_policy(division: Division) -> dict[str, Any]:
    """Return the policy; runLauncherAsNode would take the launcher for a node of the cores' size."""
    return {
        "mpiImplementation": "OpenMPI",
        "numProcPerNode": division.processes,
        "sshAuthMountPath": MOUNT,
        "runLauncherAsNode": False,
    }


def write_step(job: Job, container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template of a replicated job; JobSet starts all pods again when one ends in an error."""
    pod = write_pod(job.pod, container, restartPolicy="Never")
    return {"spec": {"backoffLimit": 0, "template": write_template(pod)}}
