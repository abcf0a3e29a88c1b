"""What operators refuse of a job beyond its definition; every manifest of the tests is held against it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Manifest = Mapping[str, Any]
Rule = tuple[str, Callable[[Manifest], bool]]

LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")  # IsDNS1035Label of Kubernetes
MANAGER = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def identify(manifest: Manifest) -> str:
    """Return the kind and the group of a manifest as kubectl writes them, `Job.batch`: several groups have a Job."""
    group = manifest["apiVersion"].rpartition("/")[0]
    return f"{manifest['kind']}.{group}" if group else str(manifest["kind"])


def list_flaws(manifest: Manifest) -> list[str]:
    """Return the rules that a manifest breaks, each as what holds; of a kind without a row, that it has none."""
    name = identify(manifest)
    rules = RULES.get(name, [(f"RULES of tests/support/admission.py has a row of {name}", lambda _: False)])
    return [text for text, holds in rules if not holds(manifest)]


def replicas(manifest: Manifest) -> Mapping[str, Any]:
    """Return the kinds of replicas of a PyTorchJob or an MPIJob."""
    [kinds] = [value for name, value in manifest["spec"].items() if name.endswith("ReplicaSpecs")]
    return dict(kinds)


def count(manifest: Manifest, kind: str) -> Any:
    """Return how many replicas of a kind there are: 0 where it is left out."""
    return replicas(manifest)[kind].get("replicas") if kind in replicas(manifest) else 0


def containers(manifest: Manifest) -> list[list[Mapping[str, Any]]]:
    """Return the containers of each kind of replica."""
    return [replica["template"]["spec"].get("containers") or [] for replica in replicas(manifest).values()]


def patched(manifest: Manifest) -> Iterator[Mapping[str, Any]]:
    """Yield the containers that a TrainJob patches."""
    for patch in manifest["spec"].get("runtimePatches", ()):
        for job in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            yield from job["template"]["spec"]["template"]["spec"]["containers"]


def trainers(manifest: Manifest) -> list[Mapping[str, Any]]:
    """Return the jobs of a runtime that train."""
    jobs = manifest["spec"]["template"]["spec"]["replicatedJobs"]
    return [job for job in jobs if job["template"].get("metadata", {}).get("labels", {}).get(STEP) == "trainer"]


# pkg/webhooks/pytorch/pytorchjob_webhook.go and pkg/webhooks/utils/utils.go (training-operator v1.9.0); what they take
# and the operator cannot run is here as well: Workers only without elasticPolicy have no meeting point (envvar.go).
PYTORCHJOB: Sequence[Rule] = (
    ("its name is a DNS label", lambda job: LABEL.fullmatch(job["metadata"]["name"]) is not None),
    ("it has Masters or Workers and nothing else", lambda job: {"Master", "Worker"} >= replicas(job).keys() != set()),
    ("it has one Master, or none", lambda job: "Master" not in replicas(job) or count(job, "Master") == 1),
    ("a kind of replica is there at least once", lambda job: all(count(job, kind) >= 1 for kind in replicas(job))),
    ("a container is called pytorch",
     lambda job: all("pytorch" in [one["name"] for one in pod] for pod in containers(job))),
    ("containers have an image", lambda job: all(one.get("image") for pod in containers(job) for one in pod)),
    ("pods meet at a Master, or at a Worker of an elastic job",
     lambda job: ("Worker" if job["spec"].get("elasticPolicy") else "Master") in replicas(job)),
)  # fmt: skip

# pkg/apis/kubeflow/validation/validation.go (mpi-operator v0.8.2). The names of the last worker's pod and of the
# launcher's Job are DNS labels. What nothing refuses and no gang survives is here as well: the launcher is one of it
# unless minAvailable says less (calculateMinAvailable in pkg/controller/podgroup.go).
MPIJOB: Sequence[Rule] = (
    ("the names of its pods are DNS labels", lambda job: all(
        LABEL.fullmatch(f"{job['metadata']['name']}-{end}")
        for end in ("launcher", f"worker-{count(job, 'Worker') - 1}")
    )),
    ("it has one Launcher", lambda job: count(job, "Launcher") == 1),
    ("it has a Worker", lambda job: count(job, "Worker") >= 1),
    ("its MPI is known", lambda job: job["spec"].get("mpiImplementation") in ("OpenMPI", "Intel", "MPICH")),
    ("workers have slots", lambda job: job["spec"].get("slotsPerWorker", -1) >= 0),
    ("keys have a directory", lambda job: bool(job["spec"].get("sshAuthMountPath"))),
    ("pods have containers", lambda job: all(containers(job))),
    ("a gang does not wait for a launcher that waits for its workers", lambda job: (
        job["spec"].get("launcherCreationPolicy", "AtStartup") == "AtStartup"
        or job["spec"].get("runPolicy", {}).get("schedulingPolicy", {}).get("minAvailable") == count(job, "Worker")
    )),
    ("pods are restarted never or after a failure", lambda job: all(
        replica.get("restartPolicy", "Never") in ("Never", "OnFailure") for replica in replicas(job).values()
    )),
)  # fmt: skip

# Validate in pkg/runtime/framework/plugins/jobset/jobset.go; x-kubernetes-validations and maxLength in
# trainer.kubeflow.org_trainjobs.yaml (v2.3.0).
TRAINJOB: Sequence[Rule] = (
    ("it names a runtime", lambda job: 0 < len(job["spec"]["runtimeRef"].get("name", "")) <= 253),
    ("who patches a runtime has a name with a domain",
     lambda job: all(MANAGER.fullmatch(patch["manager"]) for patch in job["spec"].get("runtimePatches", ()))),
    ("a patch has no variables", lambda job: not any(one.get("env") for one in patched(job))),
)  # fmt: skip

# validateReplicatedJobs in pkg/webhooks/trainingruntime_webhook.go; x-kubernetes-validations of spec.mlPolicy in
# trainer.kubeflow.org_clustertrainingruntimes.yaml (v2.3.0).
RUNTIME: Sequence[Rule] = (
    ("it has at most one policy",
     lambda it: len({"torch", "mpi", "jax", "xgboost", "flux"} & it["spec"]["mlPolicy"].keys()) <= 1),
    ("the job that trains is there once", lambda it: all(job.get("replicas") == 1 for job in trainers(it))),
    ("the job that trains has a container called node", lambda it: all(
        "node" in [one["name"] for one in job["template"]["spec"]["template"]["spec"]["containers"]]
        for job in trainers(it)
    )),
)  # fmt: skip
# Of the last two the schemas of Kubernetes say all.
RULES: Mapping[str, Sequence[Rule]] = {
    "PyTorchJob.kubeflow.org": PYTORCHJOB,
    "MPIJob.kubeflow.org": MPIJOB,
    "TrainJob.trainer.kubeflow.org": TRAINJOB,
    "ClusterTrainingRuntime.trainer.kubeflow.org": RUNTIME,
    "Job.batch": (),
    "PersistentVolumeClaim": (),
}
