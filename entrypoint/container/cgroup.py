"""What the cgroups of a container allow, v1 and v2: a quota of processor time and a set of processors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from entrypoint.numbers import read_cpus, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

# Gives the text of a file, or None if there is no such file.
Files = Callable[[str], "str | None"]

ROOT = "/sys/fs/cgroup"


def read_quota(files: Files) -> float | None:
    """Find the tightest quota of our cgroup and all above it, in processors."""
    found = [
        quota
        for unified, folder in list_folders(files, "cpu")
        if (quota := quota_v2(files, folder) if unified else quota_v1(files, folder)) is not None
    ]
    return min(found) if found else None


def read_cpuset(files: Files) -> frozenset[int]:
    """Read the processors that our cgroup may use; empty if it does not say."""
    for unified, folder in list_folders(files, "cpuset"):
        cpus = read_cpus(files(f"{folder}/cpuset.{'cpus.effective' if unified else 'effective_cpus'}") or "")
        if cpus:
            return cpus
    return frozenset()


def list_folders(files: Files, controller: str) -> Iterator[tuple[bool, str]]:
    """List the folders of our cgroup, innermost first, and whether they are v2's.

    The lines are `0::/kubepods/pod1` (v2) and `4:cpu,cpuacct:/docker/1` (v1), whose hierarchy is mounted under
    the names of all its controllers, or of one.
    """
    for line in (files("/proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield from ((True, f"{ROOT}{folder}") for folder in ancestors(path))
        elif controller in controllers.split(","):
            roots = dict.fromkeys((controller, controllers))
            yield from ((False, f"{ROOT}/{root}{folder}") for root in roots for folder in ancestors(path))


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
