"""A process that the kernel killed because memory had run out: which limit that was, and what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.container.cgroup import list_directories
from entrypoint.container.limits import read_memory_limit, read_total, write_size
from entrypoint.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.container.cgroup import Files

# Says to a training how many had been killed before it began, in a container that runs one job after the other.
KILLS = "MULTINODE_KILLS"
REMEDY = (
    "fewer examples at once (--per_device_train_batch_size N --gradient_accumulation_steps M), or more memory "
    "(docker run --memory, limits.memory of a pod)"
)


def count_kills(files: Files) -> int:
    """Return how many processes of this container the kernel has killed for want of memory since its start.

    The line `oom_kill 1` is in memory.events (v2) or memory.oom_control (v1), the container's own before those above.
    """
    for unified, directory in list_directories(files, "memory"):
        text = files(f"{directory}/{'memory.events' if unified else 'memory.oom_control'}")
        for line in (text or "").splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return whole(count) or 0
    return 0


def remember_kills(files: Files) -> dict[str, str]:
    """Return the variable by which a training knows how many there had been before it; empty where there were none."""
    count = count_kills(files)
    return {KILLS: str(count)} if count else {}


def has_killed(files: Files, environ: Mapping[str, str]) -> bool:
    """Return whether the kernel has killed for want of memory since this training began; environ: its variables."""
    return count_kills(files) > (whole(environ.get(KILLS, "")) or 0)


def explain_memory(files: Files) -> str:
    """Return which memory had run out: the container's own, or that of its pod or machine."""
    limit = read_memory_limit(files)
    if limit is not None:
        return f"the memory limit of this container, {write_size(limit)}, was reached"
    total = read_total(files("/proc/meminfo"))
    return (
        f"the memory of this machine{f', {write_size(total)},' if total else ''} or a limit above the container ran out"
    )
