"""What the cgroups of a container allow, v1 and v2: a quota of processor time and a set of processors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from entrypoint.numbers import read_cpus, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

# Returns the text of a file; None if there is no such file.
Files = Callable[[str], "str | None"]

ROOT = "/sys/fs/cgroup"


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
