"""The processors that this process may use, with quota and NUMA nodes, from the text of /proc and /sys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable, NamedTuple

from entrypoint.numbers import read_cpus, read_field, whole, write_cpus

# Returns the text of a file; None if there is no such file.
Files = Callable[[str], "str | None"]

ROOT = "/sys/fs/cgroup"
CPU = "/sys/devices/system/cpu/cpu{}/topology/{}"
ONLINE = "/sys/devices/system/cpu/online"
NODE = "/sys/devices/system/node/{}"
# Processes of launchers that start ranks themselves, as the kernel names them, with 15 letters at most.
DAEMONS = ("hydra_pmi_proxy", "mpirun", "mpiexec", "orterun", "orted", "prterun", "prted")
# How many processes above a rank its launcher may be.
FAR = 8


class Machine(NamedTuple):
    """The part of the machine that this process may use.

    cores: physical cores this process may keep busy; quota in processors, None if unlimited;
    nodes: its processors by NUMA node, where there are any; pinned: a launcher gave this process fewer than the
    container has, which can keep `around` cores busy; narrowed: fewer than the host has online, by a cpuset or a mask;
    siblings: our processors, core by core.
    """

    cpus: frozenset[int]
    physical: int
    cores: int
    nodes: tuple[frozenset[int], ...]
    quota: float | None
    pinned: bool
    around: int = 0
    narrowed: bool = False
    siblings: tuple[frozenset[int], ...] = ()

    @property
    def owned(self) -> bool:
        """Return whether no quota makes this container share the processors that it sees with others."""
        return self.quota is None or self.quota >= len(self.cpus)

    @property
    def filled_nodes(self) -> int:
        """Count the NUMA nodes that the cores we may keep busy fill; a quota of 4 cores fills one of 60."""
        share = -(-self.physical // max(1, len(self.nodes)))
        return max(1, min(len(self.nodes), self.cores, -(-self.cores // max(1, share))))

    def facts(self) -> dict[str, object]:
        """Return it as --explain=json prints it."""
        facts = self._asdict()
        facts["cpus"] = write_cpus(self.cpus)
        facts["nodes"] = [write_cpus(node) for node in self.nodes]
        facts["siblings"] = [write_cpus(core) for core in self.siblings]
        return facts


def read_machine(files: Files, affinity: frozenset[int], parent: int) -> Machine:
    """Return the machine as this process may use it; parent is the process that started this one."""
    siblings = list_cores(files, affinity)
    quota = read_quota(files)
    container = read_container(files, find_launcher_status(files, parent))
    pinned = affinity < container
    around = len(list_cores(files, container)) if pinned else len(siblings)
    return Machine(
        affinity,
        len(siblings),
        limit(len(siblings), quota),
        read_nodes(files, affinity),
        quota,
        pinned,
        limit(around, quota),
        affinity < read_cpus(files(ONLINE) or ""),
        siblings,
    )


def find_launcher_status(files: Files, parent: int) -> str:
    """Return the status of the launcher above this process, in text; that of the parent where there is none to be seen.

    There may be a shell between them, or the starter of a container.
    """
    first = status = files(f"/proc/{parent}/status") or ""
    for _ in range(FAR):
        if read_field(status, "Name") in DAEMONS:
            return status
        status = files(f"/proc/{read_field(status, 'PPid')}/status") or ""
    return first


def read_container(files: Files, starter: str) -> frozenset[int]:
    """Return the processors of the container, or those that a launcher has for its ranks; starter: as it was found.

    A shell whose launcher is out of sight has the mask of the rank, so the cgroup counts as well. Somebody may have
    given a launcher fewer, as `taskset -c 0 mpirun` does, and then its ranks share those.
    """
    mask = read_cpus(read_field(starter, "Cpus_allowed_list"))
    return mask if mask and read_field(starter, "Name") in DAEMONS else mask | read_cpuset(files)


def limit(cores: int, quota: float | None) -> int:
    """Count the cores that can be kept busy under a quota: at least one, and half of a core is one more."""
    return max(1, cores if quota is None else min(cores, int(quota + 0.5)))


def list_cores(files: Files, cpus: frozenset[int]) -> tuple[frozenset[int], ...]:
    """List physical cores by our processors on them: processors that share one are listed as siblings of each other."""
    left, cores = set(cpus), []
    while left:
        cpu = min(left)
        text = files(CPU.format(cpu, "thread_siblings_list")) or files(CPU.format(cpu, "core_cpus_list")) or ""
        cores.append((read_cpus(text) | {cpu}) & cpus)
        left -= cores[-1]
    return tuple(cores)


def read_nodes(files: Files, cpus: frozenset[int]) -> tuple[frozenset[int], ...]:
    """List these processors by NUMA node; a node with memory alone has none."""
    online = sorted(read_cpus(files(NODE.format("online")) or ""))
    found = (read_cpus(files(NODE.format(f"node{node}/cpulist")) or "") & cpus for node in online)
    return tuple(node for node in found if node) or (cpus,)


def read_quota(files: Files) -> float | None:
    """Return the tightest quota of our cgroup and all above it, in processors; None without a limit."""
    found = [
        quota
        for unified, directory in list_directories(files, "cpu")
        if (quota := quota_v2(files, directory) if unified else quota_v1(files, directory)) is not None
    ]
    return min(found) if found else None


def read_cpuset(files: Files) -> frozenset[int]:
    """Return the processors that our cgroup may use; empty if it does not say."""
    for unified, directory in list_directories(files, "cpuset"):
        cpus = read_cpus(files(f"{directory}/cpuset.{'cpus.effective' if unified else 'effective_cpus'}") or "")
        if cpus:
            return cpus
    return frozenset()


def list_directories(files: Files, controller: str) -> Iterator[tuple[bool, str]]:
    """List the directories of our cgroup, innermost first, and whether they are v2's.

    The lines are `0::/kubepods/pod1` (v2) and `4:cpu,cpuacct:/docker/1` (v1), whose hierarchy is mounted under
    the names of all its controllers, or of one.
    """
    for line in (files("/proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield from ((True, f"{ROOT}{directory}") for directory in ancestors(path))
        elif controller in controllers.split(","):
            roots = dict.fromkeys((controller, controllers))
            yield from ((False, f"{ROOT}/{root}{directory}") for root in roots for directory in ancestors(path))


def ancestors(path: str) -> list[str]:
    """List a cgroup and all that contain it, up to the root, where the files of a container's own cgroup are.

    In a container the path may be that on the host, of which only the root is visible.
    """
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["".join(f"/{part}" for part in parts[:count]) for count in range(len(parts), -1, -1)]


def quota_v2(files: Files, directory: str) -> float | None:
    """Return the quota in cpu.max: `150000 100000` is one and a half processors, `max 100000` is no limit."""
    words = (files(f"{directory}/cpu.max") or "").split()
    return divide(words[0], words[1]) if len(words) == 2 else None


def quota_v1(files: Files, directory: str) -> float | None:
    """Return the quota in cpu.cfs_quota_us, which is -1 without a limit."""
    return divide(files(f"{directory}/cpu.cfs_quota_us") or "", files(f"{directory}/cpu.cfs_period_us") or "")


def divide(quota: str, period: str) -> float | None:
    """Divide two numbers of microseconds; None unless both are positive."""
    time, each = whole(quota), whole(period)
    return time / each if time and each else None
