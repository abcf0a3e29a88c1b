"""What the kernel says of limits that were reached: of memory, for which it kills, of processes and of open files."""

from __future__ import annotations

import errno
import resource
import signal
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import EXIT_OUTSIDE, Refusal
from entrypoint.machine.cpus import list_directories
from entrypoint.machine.limits import read_limit, read_memory_limit, read_total, write_size
from entrypoint.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.cpus import Files

# Says to a training what there had been before it began, in a container that runs one job after the other: `2 1 0`.
VARIABLE = "MULTINODE_REACHED"
MORE_MEMORY = (
    "fewer examples at once (--per_device_train_batch_size N --gradient_accumulation_steps M), or more memory "
    "(docker run --memory, limits.memory of a pod)"
)
MORE_PROCESSES = "docker run --pids-limit 4096, podPidsLimit of the kubelet, or fewer ranks and DataLoader workers"
MORE_FILES = "docker run --ulimit nofile=65536, or fewer DataLoader workers"


class Reached(NamedTuple):
    """How often limits of this container have been reached since its start.

    killed: processes that the kernel killed for want of memory; memory: how often the container's own limit was why,
    None where the kernel does not count that (v1); processes: how often no process or thread could be started.
    """

    killed: int = 0
    memory: int | None = None
    processes: int = 0


def count_reached(files: Files) -> Reached:
    """Return what the kernel has counted in this container since its start.

    The line `oom_kill 1` is in memory.events (v2) or memory.oom_control (v1), the container's own before those above.
    It counts what any OOM killer has killed, also that of the whole machine. `oom 1`, in v2 alone, says how often the
    cgroup or one below it has reached its own limit (Documentation/admin-guide/cgroup-v2.rst): it is read wherever
    there is a limit. `max 1` in pids.events counts processes and threads that could not be started.
    """
    kills, reached = [], []
    for unified, directory in list_directories(files, "memory"):
        events = read_events(files(f"{directory}/{'memory.events' if unified else 'memory.oom_control'}"))
        kills += [events[name] for name in ("oom_kill",) if name in events]
        if "oom" in events and read_limit(files(f"{directory}/memory.max")) is not None:
            reached.append(events["oom"])
    started = [read_events(files(f"{each}/pids.events")).get("max", 0) for _, each in list_directories(files, "pids")]
    return Reached(kills[0] if kills else 0, sum(reached) if reached else None, max(started, default=0))


def read_events(text: str | None) -> dict[str, int]:
    """Return the numbers of lines like `oom_kill 1` by their names."""
    rows = (line.partition(" ") for line in (text or "").splitlines())
    return {name: whole(count) or 0 for name, _, count in rows}


def remember_reached(files: Files) -> dict[str, str]:
    """Return the variable by which a training knows what had been before it; empty where nothing had."""
    found = count_reached(files)
    return {VARIABLE: " ".join(str(count or 0) for count in found)} if any(found) else {}


def recall_reached(environ: Mapping[str, str]) -> Reached:
    """Return what there had been before this training began; environ: its variables."""
    words = [whole(word) or 0 for word in environ.get(VARIABLE, "").split()]
    killed, memory, processes = (*words, 0, 0, 0)[:3]
    return Reached(killed, memory, processes)


def read_process_limit(files: Files) -> int | None:
    """Return how many processes and threads this container may have together; None without a limit."""
    found = [read_limit(files(f"{each}/pids.max")) for _, each in list_directories(files, "pids")]
    return min((limit for limit in found if limit is not None), default=None)


def count_processes(files: Files) -> int | None:
    """Return how many processes and threads the nearest cgroup with a limit of them has now."""
    for _, each in list_directories(files, "pids"):
        if read_limit(files(f"{each}/pids.max")) is not None:
            return whole(files(f"{each}/pids.current") or "")
    return None


def has_killed(files: Files, before: Reached) -> bool:
    """Return whether the kernel has killed for want of memory since then."""
    return count_reached(files).killed > before.killed


def explain_memory(files: Files, before: Reached) -> str:
    """Return which memory has run out since then: the container's own, or that of its pod or machine."""
    limit, reached = read_memory_limit(files), count_reached(files).memory
    if limit is not None and (reached is None or reached > (before.memory or 0)):
        return f"the memory limit of this container, {write_size(limit)}, was reached"
    total = read_total(files("/proc/meminfo"))
    return (
        f"the memory of this machine{f', {write_size(total)},' if total else ''} or a limit above the container ran out"
    )


def explain_processes(files: Files, who: str) -> Refusal:
    """Return which limit kept somebody from starting a process or a thread: the container's, or the user's."""
    limit = read_process_limit(files)
    user = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    value = f"{limit} of this container" if limit is not None else f"{user} of this user"
    return Refusal(
        f"{who} could start no more processes or threads, whose limit is", value, MORE_PROCESSES, EXIT_OUTSIDE
    )


def explain_files(who: str) -> Refusal:
    """Return how many files a process may have open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return Refusal(f"{who} could open no more files, of which a process may have", limit, MORE_FILES, EXIT_OUTSIDE)


def explain_error(error: OSError, files: Files, who: str) -> Refusal | None:
    """Return which limit of processes or files an error of the system comes from; None for any other."""
    if error.errno == errno.EAGAIN:
        return explain_processes(files, who)
    return explain_files(who) if error.errno in (errno.EMFILE, errno.ENFILE) else None


def explain_end(code: int, who: str, files: Files, before: Reached) -> Refusal | None:
    """Return which limit ended a process, if its exit code and what the kernel has counted since then say so.

    code: negative for a signal. A library that gets no thread ends its process without an exception in Python.
    """
    if code == -signal.SIGKILL and has_killed(files, before):
        return Refusal(f"{who} was killed by signal 9", explain_memory(files, before), MORE_MEMORY, EXIT_OUTSIDE)
    if code and count_reached(files).processes > before.processes:
        return explain_processes(files, who)
    return None
