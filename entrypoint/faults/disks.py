"""The file systems that a process writes to, and which of them are full."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.errors import WORLD, Refusal
from entrypoint.machine.files import measure_file_system
from entrypoint.machine.limits import write_size
from entrypoint.machine.places import read_mounts

if TYPE_CHECKING:
    from entrypoint.machine.cpus import Files

# Kinds of file systems that have no space to run out of.
NEVER = ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "devtmpfs", "nsfs", "securityfs", "debugfs")
# A file system counts as full with less than this left: so many bytes, or this part of the whole, one 50th. What could
# not be written may be gone again: a file of a checkpoint that has 5 GB (transformers, max_shard_size), or several.
LITTLE, SHARE, FILE = 1 << 20, 50, 5 << 30
FEW_FILES = 16

# What to do where a start finds no space: to ask the next run for fewer checkpoints would free none.
ROOM = "remove what is not needed there, such as a half-written checkpoint"
MORE_ROOM = f"{ROOM}, or mount a larger volume; the same command then goes on from the last whole one"
MORE_DISK = (
    f"{ROOM}, then type the same again, with fewer checkpoints (--save_total_limit 2) or on a larger volume: "
    "it goes on from the last whole one"
)


class Disk(NamedTuple):
    """A directory on a file system, the size of that, and what is free for a plain user, in bytes.

    files: how many more it can have; None where it does not count them.
    """

    path: str
    size: int
    free: int
    files: int | None = None

    @property
    def has_few_files(self) -> bool:
        """Return whether it can have next to no more files, whatever is free."""
        return self.files is not None and self.files < FEW_FILES

    @property
    def is_full(self) -> bool:
        """Return whether next to nothing is left."""
        return self.has_few_files or self.free < max(LITTLE, min(self.size // SHARE, FILE))


def list_mounts(files: Files) -> list[str]:
    """List the mount points of this container that may be written."""
    rows = read_mounts(files("/proc/self/mountinfo"))
    return [point for point, kind, options in rows if kind not in NEVER and "ro" not in options]


def find_disk(path: str) -> Disk | None:
    """Return the file system at a path; None if it cannot be asked, or if the path is that of a file."""
    found = measure_file_system(path)
    return Disk(path, *found) if found and found[0] and os.path.isdir(path) else None


def write_disk(disk: Disk) -> str:
    """Return where a file system is, and how much of it is free."""
    few = f", {disk.files} inodes free" if disk.has_few_files else ""
    return f"{disk.path} ({write_size(disk.size)}, {write_size(disk.free)} free{few})"


def find_directory(error: BaseException) -> str:
    """Return the directory in which an error found no space, or the nearest above it; empty where it names no file."""
    name = getattr(error, "filename", None)
    if not isinstance(name, str) or getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    directory = os.path.abspath(name)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory


def describe_disk(directory: str) -> str:
    """Return the directory of a run, with the size of what it is on."""
    disk = find_disk(directory)
    return write_disk(disk) if disk else directory


def explain_full(directory: str) -> Refusal:
    """Return the message for a run that finds no space in its directory."""
    return Refusal("no space is left in the directory for results", describe_disk(directory), MORE_ROOM, WORLD)


def find_full(paths: list[str], find: Callable[[str], Disk | None] = find_disk) -> list[Disk]:
    """Return the file systems with next to nothing left, each once."""
    full = [disk for path in paths if (disk := find(path)) and disk.is_full]
    return list({disk._replace(path=""): disk for disk in reversed(full)}.values())[::-1]
