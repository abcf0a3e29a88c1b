"""What the MPI operator makes of an MPIJob with Intel MPI: Secret, ConfigMap and Pods (mpi-operator v0.8.2).

All of it is in pkg/controller/mpi_job_controller.go. Files of the Secret and the ConfigMap are in directories of this
machine, as a kubelet would have written them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.harness import call
from tests.support.operators import name_all

NAMESPACE = "default"
HOSTFILE = "/etc/mpi/hostfile"
INTEL = {"I_MPI_HYDRA_HOST_FILE": HOSTFILE, "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10"}


def write_mounts(place: Path, hostfile: str, mode: int = 0o644) -> None:
    """Write the key and the hostfile of a job into `keys` and `config`, as a kubelet does; mode: that of the key."""
    keys, config = place / "keys", place / "config"
    for directory in (keys, config):
        directory.mkdir()
        directory.chmod(0o755)
    make = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-f", str(keys / "id_rsa")]
    assert call(make).code == 0
    (keys / "authorized_keys").write_bytes((keys / "id_rsa.pub").read_bytes())
    for path in keys.iterdir():
        path.chmod(mode)
    (config / "hostfile").write_text(hostfile)
    (config / "hostfile").chmod(0o644)


def write_hostfile(job: Mapping[str, Any]) -> str:
    """Return the hostfile: newConfigMap."""
    spec, domain = job["spec"], find_domain(job)
    count = spec["mpiReplicaSpecs"]["Worker"]["replicas"]
    name = job["metadata"]["name"]
    return "".join(f"{name}-worker-{index}{domain}:{spec['slotsPerWorker']}\n" for index in range(count))


def find_domain(job: Mapping[str, Any]) -> str:
    """Return what follows the name of a pod in that of its Service."""
    return f".{job['metadata']['name']}.{job['metadata'].get('namespace', NAMESPACE)}.svc"


def make_mpi_pods(job: Mapping[str, Any], place: Path, addresses: Sequence[str]) -> list[dict[str, Any]]:
    """Return the workers, and the launcher last, as launcherCreationPolicy asks.

    place: a directory with `keys` and `config`, for what they mount.
    """
    name, replicas = job["metadata"]["name"], job["spec"]["mpiReplicaSpecs"]
    pods = [
        make_pod(job, replicas["Worker"], f"{name}-worker-{index}", {"K_MPI_JOB_ROLE": "worker"}, place)
        for index in range(replicas["Worker"]["replicas"])
    ]
    variables = {
        "K_MPI_JOB_ROLE": "launcher",
        **INTEL,
        "I_MPI_PERHOST": str(job["spec"]["slotsPerWorker"]),
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
    }
    launcher = make_pod(job, replicas["Launcher"], f"{name}-launcher", variables, place)
    mount(launcher, "mpi-job-config", place / "config", str(Path(HOSTFILE).parent))
    named = name_all([*pods, launcher], addresses, find_domain(job))
    for pod in named[:-1]:
        add_search(pod, find_domain(job))
    return named


def add_search(pod: Mapping[str, Any], domain: str) -> None:
    """Let a worker find the launcher and the others by their short names: `searches` of dnsConfig in newWorker."""
    for alias in pod["spec"]["hostAliases"]:
        alias["hostnames"] = [*alias["hostnames"], *(name.removesuffix(domain) for name in alias["hostnames"])]


def make_pod(
    job: Mapping[str, Any], replica: Mapping[str, Any], name: str, variables: Mapping[str, str], place: Path
) -> dict[str, Any]:
    """Return a pod: newWorker or newLauncherPodTemplate, with the keys that setupSSHOnPod mounts."""
    spec = copy.deepcopy(replica["template"]["spec"])
    spec["restartPolicy"] = replica["restartPolicy"]
    container = spec["containers"][0]
    container["env"] = [*container["env"], *({"name": key, "value": value} for key, value in variables.items())]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    mount(pod, "ssh-auth", place / "keys", job["spec"]["sshAuthMountPath"])
    return pod


def mount(pod: dict[str, Any], name: str, source: Path, target: str) -> None:
    """Add a volume to a pod, and mount it in its first container."""
    volume = {"name": name, "hostPath": {"path": str(source), "type": "Directory"}}
    pod["spec"]["volumes"].append(volume)
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": name, "mountPath": target, "readOnly": True})
