"""A kubectl for the tests: what docs/kubernetes.md does with it, played by podman through the tests' operators.

It is as strict as a cluster where newcomers stumble: a namespace, a claim and a Secret have to be there, a container
has to run before anything is copied out of it, and a claim is not deleted before the pods that mount it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from tests.cluster.pods import Podman
from tests.support.operators import TORCH_DISTRIBUTED, fill_secrets, make_job_pod, make_trainjob_pods

# The kind of an object, and how kubectl calls it in what it prints.
RESOURCES = {
    "PersistentVolumeClaim": "persistentvolumeclaim", "Job": "job.batch", "Pod": "pod",
    "TrainJob": "trainjob.trainer.kubeflow.org",
}  # fmt: skip
SHORT = {"pvc": "persistentvolumeclaim", "job": "job.batch", "trainjob": "trainjob.trainer.kubeflow.org"}
SECONDS = 300  # the longest that anything is waited for, whatever --timeout says


class Cluster:
    """What was applied, in a file, and podman, which plays the pods of it."""

    def __init__(self, place: Path) -> None:
        self.file = place / "objects.json"
        self.state: dict[str, Any] = json.loads(self.file.read_text())
        self.podman = Podman(place, self.state["network"], os.environ)

    def save(self) -> None:
        self.file.write_text(json.dumps(self.state))

    @property
    def objects(self) -> dict[str, dict[str, Any]]:
        """Return what was applied by `kind/name`, each with its manifest and its pods."""
        found: dict[str, dict[str, Any]] = self.state["objects"]
        return found

    def pods(self, selector: str = "") -> list[dict[str, Any]]:
        """List the pods that have a label."""
        label = dict([selector.split("=")]) if selector else {}
        every = [pod for each in self.objects.values() for pod in each["pods"]]
        return [pod for pod in every if label.items() <= pod["metadata"].get("labels", {}).items()]

    def addresses(self, count: int) -> list[str]:
        """Return addresses that no pod has had."""
        first, self.state["given"] = self.state["given"], self.state["given"] + count
        return self.podman.addresses(first + count)[first:]

    def find(self, name: str) -> dict[str, Any]:
        """Return an object by `kind/name`, or end as kubectl does."""
        kind, _, own = name.partition("/")
        key = f"{SHORT.get(kind, kind)}/{own}"
        return self.objects[key] if key in self.objects else fail(f"{name} not found")


def fail(text: str) -> NoReturn:
    """End as kubectl does when the server refuses."""
    sys.exit(f"Error from server: {text}")


def container(pod: dict[str, Any]) -> str:
    """Return the name that podman gives to the container of a pod."""
    return f"{pod['metadata']['name']}-{pod['spec']['containers'][0]['name']}"


def make_pods(manifest: dict[str, Any], cluster: Cluster) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the pods of an object with their addresses, as its operator makes them."""
    if manifest["kind"] == "PersistentVolumeClaim":
        return [], []
    if manifest["kind"] == "TrainJob":
        addresses = cluster.addresses(manifest["spec"]["trainer"]["numNodes"])
        return make_trainjob_pods(manifest, TORCH_DISTRIBUTED, addresses), addresses
    return [make_job_pod(manifest) if manifest["kind"] == "Job" else manifest], cluster.addresses(1)


def bind(pod: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
    """Return a pod with the values of its Secrets, and with a volume of this cluster's own for each claim."""
    try:
        bound = fill_secrets(pod, cluster.state["secrets"])
    except KeyError as error:
        fail(f"secret {error} not found")
    for volume in bound["spec"]["volumes"]:
        claim = volume.get("persistentVolumeClaim")
        if claim:
            cluster.find(f"pvc/{claim['claimName']}")
            claim["claimName"] = f"{cluster.podman.network}-{claim['claimName']}"
    bound["spec"].setdefault("restartPolicy", "Always")
    return bound


def apply(words: argparse.Namespace, cluster: Cluster) -> None:
    """Make the object in a file."""
    manifest = yaml.safe_load(sys.stdin if words.file == ["-"] else Path(words.file[0]).read_text())
    if manifest["metadata"].get("namespace") not in cluster.state["namespaces"]:
        fail(f"namespaces {manifest['metadata'].get('namespace')!r} not found")
    name = f"{RESOURCES[manifest['kind']]}/{manifest['metadata']['name']}"
    pods, addresses = make_pods(manifest, cluster)
    cluster.objects[name] = {"manifest": manifest, "pods": pods}
    with contextlib.redirect_stdout(sys.stderr):
        cluster.podman.play([bind(pod, cluster) for pod in pods], addresses)
    print(f"{name} created")


def create(words: argparse.Namespace, cluster: Cluster) -> None:
    """Make a namespace, or a Secret."""
    kind, name = words.words[0], words.words[-1]
    if kind == "namespace":
        cluster.state["namespaces"].append(name)
    else:
        cluster.state["secrets"][name] = dict([words.from_literal.split("=", 1)])
    print(f"{kind}/{name} created")


def get(words: argparse.Namespace, cluster: Cluster) -> None:
    """Show the claims, or the pods that have a label."""
    if words.words == ["pvc"]:
        found = [name.partition("/")[2] for name in cluster.objects if name.startswith("persistentvolumeclaim/")]
        print("NAME   STATUS", *(f"{name}   Bound" for name in found), sep="\n")
        return
    print("NAME", *(pod["metadata"]["name"] for pod in cluster.pods(words.selector)), sep="\n")


def wait(words: argparse.Namespace, cluster: Cluster) -> None:
    """Wait until all pods of an object have ended well, or one runs."""
    [name] = words.words
    with contextlib.redirect_stdout(sys.stderr):
        for pod in cluster.find(name)["pods"]:
            if words.condition == "condition=Ready":
                done = cluster.podman.call("wait", "--condition", "running", container(pod), seconds=SECONDS)
                assert done.code == 0, done.text
            elif cluster.podman.wait(container(pod), SECONDS) != 0:
                sys.exit(f"error: timed out waiting for the condition on {name}")
    print(f"{name} condition met")


def logs(words: argparse.Namespace, cluster: Cluster) -> None:
    """Show what the pods of a Job say, or those that have a label."""
    pods = cluster.find(words.words[0])["pods"] if words.words else cluster.pods(words.selector)
    for pod in pods:
        if words.follow:
            with contextlib.redirect_stdout(sys.stderr):
                cluster.podman.wait(container(pod), SECONDS)
        command = ["podman", "logs", container(pod)]  # both streams, in the order of the container
        lines = subprocess.check_output(command, stderr=subprocess.STDOUT, text=True, timeout=SECONDS).splitlines()
        head = f"[pod/{pod['metadata']['name']}/{pod['spec']['containers'][0]['name']}] " if words.prefix else ""
        print(*(f"{head}{line}" for line in (lines if words.tail < 0 else lines[-words.tail :])), sep="\n")


def cp(words: argparse.Namespace, cluster: Cluster) -> None:
    """Copy a directory out of a pod, by the `tar` that is in its image."""
    source, target = words.words
    pod, _, path = source.partition(":")
    own = container(cluster.find(f"pod/{pod.partition('/')[2]}")["pods"][0])
    packed = subprocess.run(["podman", "exec", own, "tar", "cf", "-", path], capture_output=True, timeout=SECONDS)
    assert packed.returncode == 0, packed.stderr
    Path(target).mkdir()
    depth = path.strip("/").count("/") + 1
    unpack = ["tar", "xf", "-", "-C", target, f"--strip-components={depth}"]
    subprocess.run(unpack, input=packed.stdout, check=True, timeout=SECONDS)


def delete(words: argparse.Namespace, cluster: Cluster) -> None:
    """Remove objects, and what belongs to them."""
    read = [yaml.safe_load(Path(name).read_text()) for name in words.file]
    if words.words[:1] == ["secret"]:
        for name in words.words[1:]:
            del cluster.state["secrets"][name]
            print(f"secret {name!r} deleted")
        return
    names = [f"{RESOURCES[each['kind']]}/{each['metadata']['name']}" for each in read]
    names += [f"{SHORT[words.words[0]]}/{name}" for name in words.words[1:]]
    for name in names:
        gone = cluster.find(name)
        if name.startswith("persistentvolumeclaim/") and cluster.pods():
            sys.exit("the claim waits for pods that mount it; those that have ended count")
        del cluster.objects[name]
        for pod in gone["pods"]:
            path = cluster.podman.directory / f"{pod['metadata']['name']}.yaml"
            subprocess.run(["podman", "kube", "down", path], capture_output=True, check=True, timeout=SECONDS)
        print(f"{name.replace('/', ' ')!r} deleted")


COMMANDS: dict[str, Callable[[argparse.Namespace, Cluster], None]] = {
    "apply": apply, "create": create, "get": get, "wait": wait, "logs": logs, "cp": cp, "delete": delete,
}  # fmt: skip


def read_words(argv: Sequence[str]) -> argparse.Namespace:
    """Read a command line; `-f` names a file, and for `logs` it follows."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("words", nargs="*")
    parser.add_argument("-n", dest="namespace")
    parser.add_argument("-l", dest="selector", default="")
    parser.add_argument("--for", dest="condition")
    parser.add_argument("--timeout")
    parser.add_argument("--from-literal")
    parser.add_argument("--prefix", action="store_true")
    parser.add_argument("--tail", type=int, default=-1)
    if argv[0] == "logs":
        parser.add_argument("-f", dest="follow", action="store_true")
    else:
        parser.add_argument("-f", dest="file", action="append", default=[])
    return parser.parse_intermixed_args(argv)


if __name__ == "__main__":
    words = read_words(sys.argv[1:])
    cluster = Cluster(Path(os.environ["KUBECTL_STATE"]))
    COMMANDS[words.command](words, cluster)
    cluster.save()
