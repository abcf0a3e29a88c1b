"""What our cgroup and all that contain it say, in either version: the tightest limit of all counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable, TypeVar

from multinode_image.machine.files import Files
from multinode_image.numbers import whole

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
