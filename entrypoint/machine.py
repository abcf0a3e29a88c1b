"""What of this machine the process may use: processors, quota, sockets, NUMA nodes, from the text of /proc and /sys."""

from __future__ import annotations

from typing import Callable, NamedTuple

from .numbers import read_cpus, whole, write_cpus

# Gives the text of a file, or None if there is no such file.
Files = Callable[[str], "str | None"]

CPU = "/sys/devices/system/cpu/cpu{}/topology/{}"
NODE = "/sys/devices/system/node/{}"
CGROUP = "/sys/fs/cgroup"


class Machine(NamedTuple):
    """The part of the machine that is ours.

    cores: physical cores this process may keep busy; quota in processors, None if unlimited;
    nodes: the processors of each NUMA node that has any of ours; pinned: a launcher gave this process cores of its own.
    """

    cpus: frozenset[int]
    physical: int
    cores: int
    sockets: int
    nodes: tuple[frozenset[int], ...]
    quota: float | None
    pinned: bool

    @property
    def owned(self) -> bool:
        """Tell whether no quota makes us share the processors that we see with others."""
        return self.quota is None or self.quota >= len(self.cpus)

    @property
    def filled_nodes(self) -> int:
        """Count the NUMA nodes that the cores we may keep busy fill; a quota of 4 cores fills one of 60."""
        share = -(-self.physical // max(1, len(self.nodes)))
        return max(1, min(len(self.nodes), self.cores, -(-self.cores // max(1, share))))

    def facts(self) -> dict[str, object]:
        """Put it into words for --explain."""
        facts = self._asdict()
        facts["cpus"] = write_cpus(self.cpus)
        facts["nodes"] = [write_cpus(node) for node in self.nodes]
        return facts


def read_machine(files: Files, affinity: frozenset[int], parent: int, launcher_pinned: bool) -> Machine:
    """Look at the machine; parent is the process that started this one."""
    physical = count_cores(files, affinity)
    quota = read_quota(files)
    cores = physical if quota is None else max(1, min(physical, int(quota)))
    pinned = launcher_pinned or affinity < read_mask(files(f"/proc/{parent}/status"))
    return Machine(
        affinity, physical, cores, count_sockets(files, affinity), read_nodes(files, affinity), quota, pinned
    )


def count_cores(files: Files, cpus: frozenset[int]) -> int:
    """Count physical cores: processors that share one are listed as siblings of each other."""
    left, cores = set(cpus), 0
    while left:
        cpu = min(left)
        text = files(CPU.format(cpu, "thread_siblings_list")) or files(CPU.format(cpu, "core_cpus_list")) or ""
        left -= read_cpus(text) | {cpu}
        cores += 1
    return max(1, cores)


def count_sockets(files: Files, cpus: frozenset[int]) -> int:
    """Count the packages that have a processor of ours."""
    left, sockets = set(cpus), 0
    while left:
        cpu = min(left)
        text = files(CPU.format(cpu, "core_siblings_list")) or files(CPU.format(cpu, "package_cpus_list"))
        # Some arm64 and virtual machines list nothing: that is one socket.
        left = left - read_cpus(text) - {cpu} if text else set()
        sockets += 1
    return max(1, sockets)


def read_nodes(files: Files, cpus: frozenset[int]) -> tuple[frozenset[int], ...]:
    """List the NUMA nodes that have processors of ours; a node with memory alone has none."""
    online = sorted(read_cpus(files(NODE.format("online")) or ""))
    found = (read_cpus(files(NODE.format(f"node{node}/cpulist")) or "") & cpus for node in online)
    return tuple(node for node in found if node) or (cpus,)


def read_mask(status: str | None) -> frozenset[int]:
    """Read the processors of another process from its /proc/PID/status; empty if it may not be read."""
    for line in (status or "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return read_cpus(line.partition(":")[2])
    return frozenset()


def read_quota(files: Files) -> float | None:
    """Find the tightest quota of our cgroup and all above it, in processors."""
    found = [
        quota
        for root, path, read in cgroup_places(files("/proc/self/cgroup") or "")
        for folder in ancestors(path)
        if (quota := read(files, f"{root}{folder}")) is not None
    ]
    return min(found) if found else None


def cgroup_places(text: str) -> list[tuple[str, str, Callable[[Files, str], float | None]]]:
    """List where the limits of our cgroup stand: `0::/kubepods/pod1` (v2), `4:cpu,cpuacct:/docker/1` (v1)."""
    places: list[tuple[str, str, Callable[[Files, str], float | None]]] = []
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            places.append((CGROUP, path, quota_v2))
        elif "cpu" in controllers.split(","):
            places.extend((f"{CGROUP}/{name}", path, quota_v1) for name in ("cpu", "cpu,cpuacct"))
    return places


def ancestors(path: str) -> list[str]:
    """List a cgroup and all that contain it, up to the root, where a container finds its own.

    In a container the path may be that of the host, of which nothing can be seen but the root.
    """
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["".join(f"/{part}" for part in parts[:count]) for count in range(len(parts), -1, -1)]


def quota_v2(files: Files, folder: str) -> float | None:
    """Read cpu.max: `150000 100000` is one and a half processors, `max 100000` is no limit."""
    words = (files(f"{folder}/cpu.max") or "").split()
    return divide(words[0], words[1]) if len(words) == 2 else None


def quota_v1(files: Files, folder: str) -> float | None:
    """Read cpu.cfs_quota_us, which is -1 without a limit."""
    return divide(files(f"{folder}/cpu.cfs_quota_us") or "", files(f"{folder}/cpu.cfs_period_us") or "")


def divide(quota: str, period: str) -> float | None:
    """Divide two numbers of microseconds; None unless both are positive."""
    time, each = whole(quota), whole(period)
    return time / each if time and each else None
