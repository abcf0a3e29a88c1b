"""What the kernel says of limits that were reached: of memory, for which it kills, of processes and of open files."""

from __future__ import annotations

import errno
import resource
import threading
from collections.abc import Mapping

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.machine.cgroups import KILLS, read_cgroups, read_memory_limit, read_process_limit
from multinode_image.machine.files import Files
from multinode_image.machine.limits import read_total, write_size
from multinode_image.numbers import whole

# Says to a training how many had been killed before it began, in a container that runs one job after the other.
VARIABLE = "MULTINODE_KILLED"
CLONE3 = 435  # on every processor (asm-generic/unistd.h)
MORE_MEMORY = (
    "fewer examples at once (--per_device_train_batch_size N --gradient_accumulation_steps M), or more memory "
    "(docker run --memory, limits.memory of a pod)"
)
MORE_PROCESSES = "docker run --pids-limit 4096, podPidsLimit of the kubelet, or fewer ranks and DataLoader workers"
NEWER_ENGINE = "an engine that knows it (Docker 20.10.10 or newer), or docker run --security-opt seccomp=unconfined"
MORE_FILES = "docker run --ulimit nofile=65536, or fewer DataLoader workers"


def count_kills(files: Files) -> int:
    """Return how many processes the kernel has killed in this container for want of memory since its start.

    The line `oom_kill 1` is in memory.events (v2) or memory.oom_control (v1), the container's own before those above.
    """
    for text in read_cgroups(files, KILLS):
        words = text.split()
        if "oom_kill" in words[:-1]:
            return whole(words[words.index("oom_kill") + 1]) or 0
    return 0


def remember_kills(files: Files) -> dict[str, str]:
    """Return the variable by which a training knows what had been before it, whatever another container handed on."""
    return {VARIABLE: str(count_kills(files))}


def has_killed(files: Files, environ: Mapping[str, str]) -> bool:
    """Return whether the kernel has killed for want of memory since a training with these variables began."""
    return count_kills(files) > (whole(environ.get(VARIABLE, "")) or 0)


def explain_memory(files: Files) -> str:
    """Return which memory has run out: the container's own, or that of its pod or machine."""
    limit, total = read_memory_limit(files), read_total(files("/proc/meminfo"))
    if limit is not None:
        return f"the memory limit of this container, {write_size(limit)}, was reached"
    size = f", {write_size(total)}," if total else ""
    return f"the memory of this machine{size} or a limit above the container ran out"


def explain_processes(files: Files, who: str) -> Refusal:
    """Return what kept somebody from starting a process or a thread: the engine, or a limit of container or user."""
    if is_clone3_refused():
        return Refusal(
            f"{who} could start no thread, which the engine refuses", "EPERM for clone3", NEWER_ENGINE, EXIT_OUTSIDE
        )
    limit = read_process_limit(files)
    user = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    value = f"{limit} of this container" if limit is not None else f"{user} of this user"
    return Refusal(
        f"{who} could start no more processes or threads, whose limit is", value, MORE_PROCESSES, EXIT_OUTSIDE
    )


def is_clone3_refused() -> bool:
    """Return whether the system call that starts a thread is not permitted; the kernel itself calls this one invalid.

    Profiles of seccomp that are older than the call refuse it by EPERM; glibc goes on without it only for ENOSYS.
    """
    import ctypes  # few starts pay for it

    ctypes.CDLL(None, use_errno=True).syscall(CLONE3, 0, 0)
    return ctypes.get_errno() == errno.EPERM


def find_thread_fault(files: Files, who: str) -> Refusal | None:
    """Return why no thread can be started; None where one can."""
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        return explain_processes(files, who)
    return None


def explain_files(who: str) -> Refusal:
    """Return how many files a process may have open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return Refusal(f"{who} could open no more files, of which a process may have", limit, MORE_FILES, EXIT_OUTSIDE)


def explain_error(error: OSError, files: Files) -> Refusal:
    """Return what an error of the system comes from: a limit of processes or files, or what it says itself."""
    if error.errno == errno.EAGAIN:
        return explain_processes(files, "this command")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return explain_files("this command")
    return Refusal("the system refused", error, "check the file or program that is named", EXIT_OUTSIDE)


def explain_kill(who: str, files: Files) -> Refusal:
    """Return that somebody was killed for want of memory."""
    return Refusal(f"{who} was killed by signal 9", explain_memory(files), MORE_MEMORY, EXIT_OUTSIDE)
