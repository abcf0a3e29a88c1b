"""Machines as the text of /proc and /sys that their kernels write, from a few numbers each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from multinode_image.machine.cpus import Machine, read_machine
from multinode_image.machine.limits import has_bf16, read_flags
from multinode_image.reading import read_cpus, write_cpus

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
CGROUP = "/sys/fs/cgroup"
POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-2.scope"


class Box(NamedTuple):
    """A machine: sockets, cores of each, threads of a core, NUMA nodes of each socket.

    Linux numbers all second threads after all first ones; paired: both threads of a core follow each other, as in
    many virtual machines.
    """

    sockets: int
    cores: int
    threads: int = 1
    nodes: int = 1
    paired: bool = False

    @property
    def total(self) -> int:
        """Count the cores of all sockets."""
        return self.sockets * self.cores

    def cpus(self, cores: range) -> frozenset[int]:
        """List the processors of some cores."""
        if self.paired:
            return frozenset(core * self.threads + thread for core in cores for thread in range(self.threads))
        return frozenset(core + self.total * thread for core in cores for thread in range(self.threads))

    def files(self) -> Mapping[str, str]:
        """Write /sys/devices/system/{cpu,node}."""
        return write_files(self)


@cache
def write_files(box: Box) -> Mapping[str, str]:
    """Write the files of a machine, once for all tests."""
    every = write_cpus(box.cpus(range(box.total)))
    files = {f"{CPU}/online": f"{every}\n", f"{CPU}/possible": f"{every}\n"}
    for core in range(box.total):
        siblings = box.cpus(range(core, core + 1))
        for cpu in siblings:
            topology = f"{CPU}/cpu{cpu}/topology"
            files[f"{topology}/thread_siblings_list"] = f"{write_cpus(siblings)}\n"
    cores = box.cores // box.nodes
    for node in range(box.sockets * box.nodes):
        files[f"{NODE}/node{node}/cpulist"] = f"{write_cpus(box.cpus(range(node * cores, (node + 1) * cores)))}\n"
    files[f"{NODE}/online"] = f"{write_cpus(frozenset(range(box.sockets * box.nodes)))}\n"
    return files


def pod(quota: float) -> dict[str, str]:
    """Limit a container under cgroup v2 in a namespace of its own: its root is its cgroup."""
    return {"/proc/self/cgroup": "0::/\n", f"{CGROUP}/cpu.max": f"{int(quota * 100000)} 100000\n"}


def docker(quota: float) -> dict[str, str]:
    """Limit a container under cgroup v1: the path is the host's, the directories are the container's own."""
    lines = ["9:name=systemd", "4:memory", "3:cpuset", "2:cpu,cpuacct", "1:pids"]
    directory = f"{CGROUP}/cpu,cpuacct"
    return {
        "/proc/self/cgroup": "".join(f"{line}:/docker/66dcf95031273a84\n" for line in lines) + "0::/docker/66dc\n",
        f"{directory}/cpu.cfs_quota_us": f"{int(quota * 100000) if quota else -1}\n",
        f"{directory}/cpu.cfs_period_us": "100000\n",
    }


def nested(outer: float, inner: float) -> dict[str, str]:
    """Limit a pod and its container, seen from the host's namespace: the tighter of both counts."""
    parent = POD.rpartition("/")[0]
    return {
        "/proc/self/cgroup": f"0::/{POD}\n",
        f"{CGROUP}/{parent}/cpu.max": f"{int(outer * 100000)} 100000\n",
        f"{CGROUP}/{POD}/cpu.max": f"{int(inner * 100000)} 100000\n" if inner else "max 100000\n",
    }


def cpuset(cpus: str, *, unified: bool = True) -> dict[str, str]:
    """Give a container some processors, under v2 or v1."""
    if unified:
        texts = {"/proc/self/cgroup": "0::/\n", f"{CGROUP}/cpu.max": "max 100000\n"}
        return {**texts, f"{CGROUP}/cpuset.cpus.effective": f"{cpus}\n"}
    return {**docker(0), f"{CGROUP}/cpuset/cpuset.effective_cpus": f"{cpus}\n"}


def look_at(
    box: Box | None, *more: dict[str, str], cpus: str = "", parent: str = "", by: str = "hydra_pmi_proxy"
) -> Machine:
    """Read a machine as a process that may use these processors; parent, by: those of its parent, and its name."""
    files = {**(box.files() if box else {}), **{name: text for texts in more for name, text in texts.items()}}
    if parent:
        files["/proc/7/status"] = f"Name:\t{by}\nState:\tS (sleeping)\nCpus_allowed_list:\t{parent}\n"
    every = box.cpus(range(box.total)) if box else frozenset(range(4))
    return read_machine(files.get, read_cpus(cpus) or every, 7)


def find_bf16() -> str:
    """Return the type in which a rank of this machine computes where bf16 is asked for, below the entrypoint."""
    return "torch.bfloat16" if has_bf16(read_flags(Path("/proc/cpuinfo").read_text())) else "torch.float32"
