"""Limits that end or slow a training: memory, /dev/shm, disks, inodes, processes, open files, units for bf16."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import sys
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Callable, NamedTuple

from multinode_image.errors import EXIT_OUTSIDE, Refusal, list_causes
from multinode_image.machine.cpus import KILLS, read_cgroups, read_memory_limit, read_process_limit
from multinode_image.machine.files import Files, count_files, measure_file_system
from multinode_image.machine.places import read_mounts
from multinode_image.reading import read_field, whole

SHM = "/dev/shm"
# The default of Docker and containerd, and that of podman (containers.conf(5), shm_size), which means 1000 by its k;
# another size was chosen by somebody.
DEFAULT_SHM, PODMAN_SHM = 64 << 20, 65_536_000
MORE_SHM = "docker run --shm-size 1g, in Kubernetes an emptyDir with medium Memory at /dev/shm"
# The peak of `smoke` is 0.53 GB, of which torch, transformers and datasets are 0.48 GB (measured with torch 2.13).
# DistilBERT, the guide's model, takes 1.1 GB more: 66 million parameters in float32, with gradient and AdamW's moments.
SMOKE_MEMORY = 768 << 20
MEMORY = 2 << 30
# Names of units that compute in bf16: arch/x86/include/asm/cpufeatures.h, Documentation/arch/arm64/elf_hwcaps.rst. The
# kernel shows no flag for AVX-NE-CONVERT, which only loads bf16.
BF16_UNITS = ("amx_bf16", "avx512_bf16", "bf16")


class Limits(NamedTuple):
    """What a container has, in bytes, and the flags of its processor; shm is None where there is no /dev/shm."""

    shm: int | None
    memory: int
    flags: frozenset[str]

    @property
    def bf16_units(self) -> list[str]:
        """Return the units that compute in bf16."""
        return [unit for unit in BF16_UNITS if unit in self.flags]


def read_limits(files: Files, measure: Callable[[str], tuple[int, int] | None]) -> Limits:
    """Return the limits of this container; measure: the bytes of the file system at a path, and those free."""
    total = read_total(files("/proc/meminfo"))
    limits = [limit for limit in (total, read_memory_limit(files)) if limit is not None]
    memory, shm = min(limits, default=0), measure(SHM)
    # A tmpfs without a limit, as of `--shm-size 0`, has no size.
    return Limits((shm[0] or memory) if shm else None, memory, read_flags(files("/proc/cpuinfo")))


def read_total(meminfo: str | None) -> int | None:
    """Return the memory of the machine in bytes, from a line like `MemTotal: 8000000 kB`."""
    count = whole(read_field(meminfo or "", "MemTotal").replace("kB", ""))
    return None if count is None else count << 10


def read_flags(cpuinfo: str | None) -> frozenset[str]:
    """Return the flags of the first processor: `flags` on x86, `Features` on arm64."""
    text = cpuinfo or ""
    return frozenset((read_field(text, "flags") or read_field(text, "Features")).split())


def has_bf16(flags: frozenset[str]) -> bool:
    """Return whether the processor computes in bf16."""
    return not flags.isdisjoint(BF16_UNITS)


def write_size(count: int) -> str:
    """Return a number of bytes in MB or GB."""
    return f"{count / (1 << 30):.1f} GB" if count >= 1 << 30 else f"{count >> 20} MB"


# The file systems that a training writes to, and which of them are full.

# Kinds of file systems that have no space to run out of.
NEVER = ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "devtmpfs", "nsfs", "securityfs", "debugfs")
# A file system counts as full with less than this left: so many bytes, or this part of the whole, one 50th. What could
# not be written may be gone again: a file of a checkpoint that has 5 GB (transformers, max_shard_size), or several.
LITTLE, SHARE, FILE = 1 << 20, 50, 5 << 30
# So many files, or this part of those that it may have: a checkpoint has a dozen.
FEW = 100
MORE_ROOM = (
    "remove what is not needed there, such as a half-written checkpoint, or mount a larger volume; the same command "
    "then goes on from the last complete checkpoint"
)


class Disk(NamedTuple):
    """A directory on a file system, and what is free there for a plain user, in bytes.

    files: how many it may have, in inodes, and free_files how many more; 0 where the file system does not say.
    """

    path: str
    size: int
    free: int
    files: int = 0
    free_files: int = 0

    @property
    def is_full(self) -> bool:
        """Return whether next to nothing is left."""
        return self.lacks_files or self.free < max(LITTLE, min(self.size // SHARE, FILE))

    @property
    def lacks_files(self) -> bool:
        """Return whether hardly another file may be made there, however many bytes are free."""
        return bool(self.files) and self.free_files < max(1, min(self.files // SHARE, FEW))

    def __str__(self) -> str:
        """Return where it is, and how much of it is free."""
        if self.lacks_files:
            return f"{self.path} ({self.files:,} files at most, {self.free_files:,} more; {write_size(self.free)} free)"
        return f"{self.path} ({write_size(self.size)}, {write_size(self.free)} free)"


def find_disk(path: str) -> Disk | None:
    """Return the file system at a directory; None if it cannot be asked, or if the path is that of a file."""
    sizes = measure_file_system(path)
    return Disk(path, *sizes, *count_files(path)) if sizes and sizes[0] and os.path.isdir(path) else None


def find_full(files: Files) -> list[Disk]:
    """Return the file systems of this container that may be written and have next to nothing left, each once."""
    rows = read_mounts(files("/proc/self/mountinfo"))
    points = [point for point, kind, options in rows if kind not in NEVER and "ro" not in options]
    full = [disk for point in points if (disk := find_disk(point)) and disk.is_full]
    return list({disk._replace(path=""): disk for disk in reversed(full)}.values())[::-1]


# What the kernel says of limits that were reached: of memory, for which it kills, of processes and of open files.

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
        threading.Thread().start()
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


# Why a file cannot be written to a disk that has room: a limit of its size, or a quota, which statvfs does not show.
#
# Python and Rust say the number of the kernel's error. A stream of C++, by which torch writes, says nothing of it: so
# the kernel is asked again, by a write beside the file.

# How functions that write call their file, also torch.save and safetensors.
NAMES = ("f", "file", "filename", "path", "name")
PROBE = 1 << 20
LARGER = (
    "docker run --ulimit fsize=-1, ulimit -f unlimited, or the scheduler's limit (h_fsize, -l file); or smaller files"
)
QUOTA = "remove what is not needed there, or ask whoever runs that file system for more (quota -s shows what there is)"


def find_refused(error: BaseException) -> OSError | None:
    """Return what the kernel refuses to a program that could not write a file; None where it refuses nothing."""
    path = find_target(error)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    limit = sys.maxsize if limit == resource.RLIM_INFINITY else limit
    with contextlib.suppress(OSError):
        if limit < sys.maxsize and (not path or os.path.getsize(path) >= limit):
            return OSError(errno.EFBIG, os.strerror(errno.EFBIG), path or None)
    return try_beside(path, min(PROBE, limit)) if path else None


def try_beside(path: str, size: int = PROBE) -> OSError | None:
    """Return why so many bytes cannot be written beside a file; None where they can."""
    probe = f"{path}.{os.getpid()}.probe"
    try:
        with open(probe, "xb") as file:
            file.write(bytes(size))
            os.fsync(file.fileno())
    except OSError as error:
        return error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(probe)
    return None


def find_target(error: BaseException) -> str:
    """Return the file that was written, as a function on the way to the error names it; empty where none does."""
    for frame in list_innermost(error):
        for name in NAMES:
            path = frame.f_locals.get(name)
            if isinstance(path, (str, os.PathLike)) and os.path.isfile(path):
                return os.path.abspath(os.fsdecode(path))
    return ""


def list_innermost(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of an error and of those that it came from, the innermost first."""
    for cause in reversed(list_causes(error)):
        frames, trace = list[FrameType](), cause.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        yield from reversed(frames)


def explain_refused(number: int, where: str, who: str) -> Refusal | None:
    """Return which limit has been reached, by the kernel's number; where: a path, or what was said."""
    if number == errno.EFBIG:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        of_process = "" if limit == resource.RLIM_INFINITY else f" of {limit:,} bytes for each process (ulimit -f)"
        return Refusal(f"{who} has reached the limit of a file's size{of_process}", where, LARGER, EXIT_OUTSIDE)
    if number == errno.EDQUOT:
        return Refusal(f"the disk quota of {who} is used up", where, QUOTA, EXIT_OUTSIDE)
    return None
