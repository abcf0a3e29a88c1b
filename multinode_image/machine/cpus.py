"""The processors that this process may use, with quota and NUMA nodes, from the text of /proc and /sys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable, NamedTuple, TypeVar

from multinode_image.machine.files import Files
from multinode_image.reading import read_cpus, read_field, whole, write_cpus

ROOT = "/sys/fs/cgroup"
# What the files of a controller are called in v2, and in v1, where the two numbers of a quota are in two files.
QUOTA = ("cpu", "cpu.max", ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
PROCESSORS = ("cpuset", "cpuset.cpus.effective", ("cpuset.effective_cpus",))
MEMORY = ("memory", "memory.max", ("memory.limit_in_bytes",))
KILLS = ("memory", "memory.events", ("memory.oom_control",))
PROCESSES = ("pids", "pids.max", ("pids.max",))

Number = TypeVar("Number", int, float)


def read_cgroups(files: Files, names: tuple[str, str, tuple[str, ...]]) -> Iterator[str]:
    """Yield what a file says in our cgroup and in all above it, innermost first; names: a row of the table above."""
    controller, unified, old = names
    for is_unified, directory in list_directories(files, controller):
        yield " ".join(files(f"{directory}/{name}") or "" for name in ((unified,) if is_unified else old))


def find_tightest(
    files: Files, names: tuple[str, str, tuple[str, ...]], read: Callable[[str], Number | None]
) -> Number | None:
    """Return the smallest limit of our cgroup and all above it; None without one. read: the limit in a text."""
    limits = (read(text) for text in read_cgroups(files, names))
    return min((limit for limit in limits if limit is not None), default=None)


def read_memory_limit(files: Files) -> int | None:
    """Return how many bytes of memory this container may have; None without a limit."""
    return find_tightest(files, MEMORY, read_limit)


def read_process_limit(files: Files) -> int | None:
    """Return how many processes and threads this container may have together; None without a limit."""
    return find_tightest(files, PROCESSES, read_limit)


def divide(text: str) -> float | None:
    """Return a quota in processors: `150000 100000` is one and a half; None for `max 100000`, and -1 in v1."""
    numbers = [whole(word) for word in text.split()]
    return numbers[0] / numbers[1] if len(numbers) == 2 and numbers[0] and numbers[1] else None


def read_limit(text: str) -> int | None:
    """Return a limit; None for `max` and for a number that no machine has, which mean no limit."""
    text = text.strip()
    # Without a limit v1 shows the largest multiple of the page size below 2 to the power of 63.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


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


CPU = "/sys/devices/system/cpu/cpu{}/topology/{}"
ONLINE = "/sys/devices/system/cpu/online"
NODE = "/sys/devices/system/node/{}"
# Processes of launchers that start ranks themselves, as the kernel names them, with 15 letters at most.
DAEMONS = ("hydra_pmi_proxy", "mpirun", "mpiexec", "orterun", "orted", "prterun", "prted")
# How many processes above a rank its launcher may be.
FAR = 8


class Machine(NamedTuple):
    """The part of the machine that this process may use.

    cores: how many physical cores this process may keep busy, container_cores: how many the whole container may;
    quota: in processors, None if unlimited; nodes: its processors by NUMA node, where there are any; pinned: a launcher
    gave this process fewer than the container has; restricted: it has fewer than the host has online, by a cpuset or a
    mask; siblings: its processors, core by core.
    """

    cpus: frozenset[int]
    physical: int
    cores: int
    nodes: tuple[frozenset[int], ...]
    quota: float | None
    pinned: bool
    container_cores: int = 0
    restricted: bool = False
    siblings: tuple[frozenset[int], ...] = ()

    @property
    def exclusive(self) -> bool:
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
    quota = find_tightest(files, QUOTA, divide)
    container = read_container(files, find_launcher_status(files, parent))
    pinned = affinity < container
    container_cores = len(list_cores(files, container)) if pinned else len(siblings)
    return Machine(
        affinity,
        len(siblings),
        limit(len(siblings), quota),
        read_nodes(files, affinity),
        quota,
        pinned,
        limit(container_cores, quota),
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
    """Return the processors of the container, or those that a launcher has for its ranks.

    starter: the status of the process above this one (`find_launcher_status`).

    A shell whose launcher is out of sight has the mask of the rank, so the cgroup counts as well. Somebody may have
    given a launcher fewer, as `taskset -c 0 mpirun` does, and then its ranks share those.
    """
    mask = read_cpus(read_field(starter, "Cpus_allowed_list"))
    if mask and read_field(starter, "Name") in DAEMONS:
        return mask
    return mask | next(filter(None, map(read_cpus, read_cgroups(files, PROCESSORS))), frozenset())


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
    nodes = (read_cpus(files(NODE.format(f"node{node}/cpulist")) or "") & cpus for node in online)
    return tuple(node for node in nodes if node) or (cpus,)
