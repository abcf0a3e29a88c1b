"""A process that the kernel killed because memory had run out: which limit that was, and what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from entrypoint.machine.cpus import list_directories
from entrypoint.machine.limits import read_limit, read_memory_limit, read_total, write_size
from entrypoint.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.cpus import Files

# Says to a training what there had been before it began, in a container that runs one job after the other: `2 1`.
KILLS = "MULTINODE_KILLS"
REMEDY = (
    "fewer examples at once (--per_device_train_batch_size N --gradient_accumulation_steps M), or more memory "
    "(docker run --memory, limits.memory of a pod)"
)


class Kills(NamedTuple):
    """How many processes of this container the kernel has killed for want of memory, and how often a limit was why.

    reached: of the container's own limits; None where the kernel does not count that (v1).
    """

    killed: int = 0
    reached: int | None = None


def count_kills(files: Files) -> Kills:
    """Return what the kernel has counted in this container since its start.

    The line `oom_kill 1` is in memory.events (v2) or memory.oom_control (v1), the container's own before those above.
    It counts what any OOM killer has killed, also that of the whole machine. `oom 1`, in v2 alone, says how often the
    cgroup or one below it has reached its own limit (Documentation/admin-guide/cgroup-v2.rst): it is read wherever
    there is a limit.
    """
    kills, reached = [], []
    for unified, directory in list_directories(files, "memory"):
        events = read_events(files(f"{directory}/{'memory.events' if unified else 'memory.oom_control'}") or "")
        if "oom_kill" in events:
            kills.append(events["oom_kill"])
        if "oom" in events and read_limit(files(f"{directory}/memory.max")) is not None:
            reached.append(events["oom"])
    return Kills(kills[0] if kills else 0, sum(reached) if reached else None)


def read_events(text: str) -> dict[str, int]:
    """Return the numbers of lines like `oom_kill 1` by their names."""
    rows = (line.partition(" ") for line in text.splitlines())
    return {name: whole(count) or 0 for name, _, count in rows}


def remember_kills(files: Files) -> dict[str, str]:
    """Return the variable by which a training knows what had been before it; empty where nothing had."""
    killed, reached = count_kills(files)
    return {KILLS: f"{killed} {reached or 0}"} if killed or reached else {}


def recall_kills(environ: Mapping[str, str]) -> Kills:
    """Return what there had been before this training began; environ: its variables."""
    words = [whole(word) or 0 for word in environ.get(KILLS, "").split()]
    killed, reached = (*words, 0, 0)[:2]
    return Kills(killed, reached)


def has_killed(files: Files, before: Kills) -> bool:
    """Return whether the kernel has killed for want of memory since then."""
    return count_kills(files).killed > before.killed


def explain_memory(files: Files, before: Kills) -> str:
    """Return which memory has run out since then: the container's own, or that of its pod or machine."""
    limit, reached = read_memory_limit(files), count_kills(files).reached
    if limit is not None and (reached is None or reached > (before.reached or 0)):
        return f"the memory limit of this container, {write_size(limit)}, was reached"
    total = read_total(files("/proc/meminfo"))
    return (
        f"the memory of this machine{f', {write_size(total)},' if total else ''} or a limit above the container ran out"
    )
