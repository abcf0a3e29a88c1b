"""What an operator makes of a job: the Pods, as they would reach a kubelet, with what a cluster's DNS would answer.

The Services of a job are headless, so that each is a name for the address of one pod. There is no DNS here: the names
are in the `hostAliases` of every pod.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

# Of kubeflow/training-operator v1.9.0: pytorch_types.go, initcontainer.go and config.go.
PORT = 23456
TRIES = 100
# alpine:3.10 with nslookup in the original, which no registry gives us here; the same loop asks the same question.
WAIT = "err=1; for i in $(seq {tries}); do if getent hosts {master}; then err=0 && break; fi; sleep 2; done; exit $err"


def list_replicas(job: Mapping[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the kind, number and specification of each pod of a PyTorchJob, the Master first."""
    for kind, replica in sorted(job["spec"]["pytorchReplicaSpecs"].items()):
        for index in range(replica.get("replicas", 1)):
            yield kind.lower(), index, replica


def name_pod(job: Mapping[str, Any], kind: str, index: int) -> str:
    """Return the name of a pod and of its Service: GenGeneralName in pkg/controller.v1/common/util.go."""
    return f"{job['metadata']['name']}-{kind}-{index}"


def set_variables(job: Mapping[str, Any], kind: str, index: int) -> dict[str, str]:
    """Return what setPodEnv writes into every container: envvar.go, master.go and elastic.go."""
    spec = job["spec"]
    nproc, replicas = spec.get("nprocPerNode", "auto"), spec["pytorchReplicaSpecs"]
    total = sum(replica.get("replicas", 1) for replica in replicas.values())
    variables = {"PYTHONUNBUFFERED": "1"}
    if "Master" in replicas:
        place = {"MASTER_PORT": str(PORT), "MASTER_ADDR": name_pod(job, "master", 0)}
        rank = str(index + 1 if kind == "worker" else index)
        size = total * (int(nproc) if nproc.isdigit() else 1)
        variables |= place | {f"PET_{name}": value for name, value in place.items()}
        variables |= {"WORLD_SIZE": str(size), "RANK": rank, "PET_NODE_RANK": rank}
    variables["PET_NPROC_PER_NODE"] = nproc
    return variables | (meet(job) if "elasticPolicy" in spec else {"PET_NNODES": str(total)})


def meet(job: Mapping[str, Any]) -> dict[str, str]:
    """Return what the pods of an elastic job get besides: ElasticEnvVarGenerator in elastic.go."""
    policy = job["spec"]["elasticPolicy"]
    variables = {
        "PET_RDZV_ENDPOINT": f"{name_pod(job, 'worker', 0)}:{PORT}",
        "PET_RDZV_BACKEND": policy.get("rdzvBackend", "c10d"),
        "PET_NNODES": f"{policy['minReplicas']}:{policy['maxReplicas']}",
    }
    return variables | ({"PET_MAX_RESTARTS": str(policy["maxRestarts"])} if "maxRestarts" in policy else {})


def wait_for_master(job: Mapping[str, Any], image: str) -> dict[str, Any]:
    """Return the init container that a Worker beside a Master gets: setInitContainer in initcontainer.go."""
    loop = WAIT.format(tries=TRIES, master=name_pod(job, "master", 0))
    sizes = {"limits": {"cpu": "100m", "memory": "20Mi"}, "requests": {"cpu": "50m", "memory": "10Mi"}}
    return {"name": "init-pytorch", "image": image, "command": ["sh", "-c", loop], "resources": sizes}


def make_pod(job: Mapping[str, Any], kind: str, index: int, replica: Mapping[str, Any]) -> dict[str, Any]:
    """Return one pod: createNewPod in pkg/controller.v1/common/pod.go, SetRestartPolicy in pkg/core/pod.go."""
    spec = copy.deepcopy(replica["template"]["spec"])
    name, policy = name_pod(job, kind, index), replica.get("restartPolicy", "OnFailure")
    labels = {"training.kubeflow.org/job-name": job["metadata"]["name"], "training.kubeflow.org/replica-type": kind}
    for container in spec["containers"]:
        rows = [{"name": key, "value": value} for key, value in set_variables(job, kind, index).items()]
        container["env"] = [*container.get("env", []), *rows]
    if kind == "worker" and "Master" in job["spec"]["pytorchReplicaSpecs"]:
        spec["initContainers"] = [wait_for_master(job, spec["containers"][0]["image"])]
    spec["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def make_pods(job: Mapping[str, Any], addresses: Sequence[str]) -> list[dict[str, Any]]:
    """Return all pods of a PyTorchJob; addresses: one for each pod, which its Service has as well."""
    pods = [make_pod(job, *row) for row in list_replicas(job)]
    return name_all(pods, addresses, "")


def name_all(pods: Sequence[dict[str, Any]], addresses: Sequence[str], domain: str) -> list[dict[str, Any]]:
    """Return pods that know the addresses of the others; domain: what follows the name of a pod in a Service's names.

    A kubelet writes the name of the pod itself into its /etc/hosts.
    """
    names = [pod["metadata"]["name"] for pod in pods]
    known = [{"ip": address, "hostnames": [f"{name}{domain}"]} for name, address in zip(names, addresses, strict=True)]
    for pod in pods:
        pod_name = pod["metadata"]["name"]
        pod["spec"]["hostAliases"] = [dict(alias) for alias in known if domain or alias["hostnames"] != [pod_name]]
    return list(pods)


def make_job_pod(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first pod of a Job of Kubernetes; its name has five letters of the controller's at the end."""
    template = copy.deepcopy(job["spec"]["template"])
    name, metadata = job["metadata"]["name"], template.get("metadata", {})
    labels = {**metadata.get("labels", {}), "batch.kubernetes.io/job-name": name}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-x7k2p", "labels": labels}}
    return {**head, "spec": template["spec"]}


def fill_secrets(pod: dict[str, Any], secrets: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return a pod whose variables have their values from Secrets, as a kubelet starts it; raise KeyError for none."""
    filled = copy.deepcopy(pod)
    for container in filled["spec"]["containers"]:
        for row in container.get("env", []):
            if "valueFrom" in row:
                asked = row.pop("valueFrom")["secretKeyRef"]
                row["value"] = secrets[asked["name"]][asked["key"]]
    return filled


# The runtime that comes with Trainer v2.3.0: manifests/base/runtimes/torch_distributed.yaml.
TORCH_DISTRIBUTED: Mapping[str, Any] = {
    "metadata": {"name": "torch-distributed"},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "pytorch"}]}}},
                        },
                    }
                ]
            }
        },
    },
}
# The keys by which a strategic merge patch finds the element of a list (patchMergeKey in core/v1); other lists are
# replaced.
MERGED = {"replicatedJobs": "name", "containers": "name", "volumes": "name", "volumeMounts": "mountPath"}


def merge(old: Any, new: Any, field: str = "") -> Any:
    """Merge a patch into an object as strategicpatch.StrategicMergePatch does: mergeRuntimePatches of Trainer."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: merge(old.get(key), value, key) for key, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list) and field in MERGED:
        by = MERGED[field]
        merged = {item[by]: item for item in old}
        return list({**merged, **{item[by]: merge(merged.get(item[by]), item) for item in new}}.values())
    return copy.deepcopy(new)


def make_trainjob_pods(
    job: Mapping[str, Any], runtime: Mapping[str, Any], addresses: Sequence[str]
) -> list[dict[str, Any]]:
    """Return all pods of a TrainJob with a torch runtime, as JobSet and Job make them (Trainer v2.3.0)."""
    template = copy.deepcopy(runtime["spec"]["template"]["spec"])
    for patch in job["spec"].get("runtimePatches", ()):
        template = merge(template, patch["trainingRuntimeSpec"]["template"]["spec"])
    [replicated] = template["replicatedJobs"]
    name, trainer = job["metadata"]["name"], job["spec"]["trainer"]
    pods = []
    for index in range(trainer["numNodes"]):
        spec = copy.deepcopy(replicated["template"]["spec"]["template"]["spec"])
        [node] = spec["containers"]
        fill_node(node, trainer, name, index)
        pod = f"{name}-node-0-{index}"
        labels = {"jobset.sigs.k8s.io/jobset-name": name, "batch.kubernetes.io/job-completion-index": str(index)}
        spec.setdefault("restartPolicy", "OnFailure")  # JobSet's default
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "labels": labels}, "spec": spec})
    return name_all(pods, addresses, f".{name}")


def fill_node(node: dict[str, Any], trainer: Mapping[str, Any], name: str, index: int) -> None:
    """Write into the container `node` what the TrainJob says, and the torch plugin: EnforceMLPolicy in torch.go."""
    node.update({key: trainer[key] for key in ("image", "command", "args") if key in trainer})
    node["resources"] = trainer.get("resourcesPerNode", node.get("resources", {}))
    variables = {row["name"]: row for row in [*node.get("env", []), *trainer.get("env", [])]}
    count = trainer.get("numProcPerNode") or ceil(float(node["resources"]["limits"]["cpu"]))  # getNumCPUPerNode
    torch = {
        "PET_NNODES": str(trainer["numNodes"]),
        "PET_NPROC_PER_NODE": str(count),
        "PET_NODE_RANK": str(index),
        "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
        "PET_MASTER_PORT": "29500",
    }
    node["env"] = list((variables | {key: {"name": key, "value": value} for key, value in torch.items()}).values())
