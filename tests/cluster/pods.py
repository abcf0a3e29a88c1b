"""Pods of Kubernetes, played by podman: YAML goes in as it stands, each pod has an address of its own."""

from __future__ import annotations

import copy
import ipaddress
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.harness import Done, call
from tests.support.manifests import run
from tests.support.operators import TORCH_DISTRIBUTED, make_pods, make_trainjob_pods

# The process that holds a pod's namespaces; `podman kube play` builds an image around it, without a network.
HOLDER = ("/usr/libexec/podman/catatonit", "/usr/bin/catatonit")
FIRST = 10  # the address of the first pod in its network


def missing() -> str | None:
    """Return what is not here and has to be for pods; None where all of it is."""
    if shutil.which("podman") is None:
        return "no podman: apt-get install podman"
    if not any(Path(path).exists() for path in HOLDER):
        return "no catatonit: apt-get install catatonit"
    return None


def write_limits(directory: Path) -> Path:
    """Write podman's configuration for a machine on which it may not raise its own limits."""
    rows = [f"{name}={limit}:{limit}" for name, limit in (("nofile", most("NOFILE")), ("nproc", most("NPROC")))]
    path = directory / "containers.conf"
    path.write_text(f"[containers]\ndefault_ulimits = {json.dumps(rows)}\n")
    return path


def most(name: str) -> int:
    """Return the hard limit of this process, and no more than any program here needs."""
    limit = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
    return 20_000 if limit == resource.RLIM_INFINITY else min(limit, 20_000)


def separate(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod whose emptyDirs have names of their own: podman 4.3 gives two pods one volume for one name."""
    copied = copy.deepcopy(dict(pod))
    names = {
        volume["name"]: f"{copied['metadata']['name']}-{volume['name']}"
        for volume in copied["spec"]["volumes"] if "emptyDir" in volume
    }  # fmt: skip
    mounts = [mount for container in copied["spec"]["containers"] for mount in container["volumeMounts"]]
    for named in (*copied["spec"]["volumes"], *mounts):
        named["name"] = names.get(named["name"], named["name"])
    return copied


@dataclass
class Podman:
    """Podman with limits of its own, a network, and the pods that were played in it."""

    directory: Path
    network: str
    environ: Mapping[str, str]
    played: list[Path] = field(default_factory=list)

    def call(self, *words: str, seconds: float = 120) -> Done:
        """Run podman within a time limit."""
        return call(["podman", *words], seconds=seconds, env=self.environ)

    def addresses(self, count: int) -> list[str]:
        """Return so many addresses of the network."""
        return [str(self.subnet[FIRST + number]) for number in range(count)]

    @property
    def gateway(self) -> str:
        """Return the address that this machine has in the network as soon as there is a pod."""
        return str(self.subnet[1])

    @property
    def subnet(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """Return the addresses of the network."""
        [described] = json.loads(self.call("network", "inspect", self.network).out)
        return ipaddress.ip_network(described["subnets"][0]["subnet"])

    def play(self, pods: Sequence[Mapping[str, Any]], addresses: Sequence[str]) -> None:
        """Start pods, all of them whatever becomes of one; the address of each is where its Service leads."""
        for pod, address in zip(pods, addresses, strict=True):
            path = self.directory / f"{pod['metadata']['name']}.yaml"
            path.write_text(yaml.safe_dump(separate(pod)))
            self.played.append(path)
            done = self.call("kube", "play", "--network", self.network, "--ip", address, str(path))
            assert done.code == 0, done.text

    def wait(self, container: str, seconds: float) -> int:
        """Wait for the end of a container; return its exit code, and show what it said."""
        try:
            return int(self.call("wait", container, seconds=seconds).out)
        finally:
            self.call("logs", container)

    def ends(self, containers: Sequence[str], seconds: float = 180) -> list[Done]:
        """Wait for the ends of containers; return their exit codes and all that they said."""
        codes = [self.wait(container, seconds) for container in containers]
        return [Done(code, self.logs(container), "") for code, container in zip(codes, containers, strict=True)]

    def logs(self, container: str) -> str:
        """Return what a container has said so far."""
        return self.call("logs", container).text

    def down_pods(self) -> None:
        """Remove the pods; others may have their names then."""
        for path in self.played:
            subprocess.run(["podman", "kube", "down", str(path)], env=self.environ, capture_output=True, timeout=120)
        self.played.clear()

    def down(self) -> None:
        """Remove the pods, and their network."""
        self.down_pods()
        command = ["podman", "network", "rm", "--force", self.network]
        subprocess.run(command, env=self.environ, capture_output=True, timeout=120)


@dataclass(frozen=True)
class Form:
    """A form of a job of two pods: its kind and options, the operator, and the containers behind the job's name."""

    kind: str
    options: tuple[str, ...]
    operator: Callable[[Mapping[str, Any], Sequence[str]], list[dict[str, Any]]]
    ends: tuple[str, str]

    def play(self, node: Podman, name: str, image: str, claim: str, *words: str) -> list[Done]:
        """Play the pods of a job and wait for their ends."""
        given = ("--name", name, "--image", image, "--pvc", claim, *SIZES, *self.options)
        addresses = node.addresses(2)
        node.play(self.operator(run(self.kind, *given, *words).manifest, addresses), addresses)
        return node.ends([f"{name}-{end}" for end in self.ends])


def _make_trainjob(manifest: Mapping[str, Any], addresses: Sequence[str]) -> list[dict[str, Any]]:
    return make_trainjob_pods(manifest, TORCH_DISTRIBUTED, addresses)


SIZES = ("--cpu", "1", "--memory", "3Gi", "--shm", "256Mi", "--workers", "2")
ELASTIC = Form("pytorchjob", ("--elastic", "2:2"), make_pods, ("worker-0-pytorch", "worker-1-pytorch"))
MASTER = Form("pytorchjob", ("--elastic", "off"), make_pods, ("master-0-pytorch", "worker-0-pytorch"))
TRAINJOB = Form("trainjob", (), _make_trainjob, ("node-0-0-node", "node-0-1-node"))


@contextmanager
def podman(directory: Path, name: str, *, internal: bool = False) -> Iterator[Podman]:
    """Lend podman with a network of this name; whatever was played in it is gone afterwards.

    internal: whether nothing but its own pods can be reached in the network, this machine neither.
    """
    environ = {**os.environ, "CONTAINERS_CONF": str(write_limits(directory))}
    lent = Podman(directory, name, environ)
    try:
        assert lent.call("network", "create", *(["--internal"] if internal else []), name).code == 0
        yield lent
    finally:
        lent.down()
