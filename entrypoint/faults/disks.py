"""The file systems that a process writes to, and which of them are full."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.container.files import measure_file_system
from entrypoint.container.limits import write_size
from entrypoint.container.places import read_mounts

if TYPE_CHECKING:
    from entrypoint.container.cgroup import Files

# Kinds of file systems that have no space to run out of.
NEVER = ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "devtmpfs", "nsfs", "securityfs", "debugfs")
# A file system counts as full with less than this left: so many bytes, or this part of the whole, one 50th.
LITTLE, SHARE = 1 << 20, 50

# What to do where a start finds no space: to ask the next run for fewer checkpoints would free none.
ROOM = "remove what is not needed there, such as a half-written checkpoint"
MORE_ROOM = f"{ROOM}, or mount a larger volume; the same command then goes on from the last whole one"
MORE_DISK = (
    f"{ROOM}, then type the same again, with fewer checkpoints (--save_total_limit 2) or on a larger volume: "
    "it goes on from the last whole one"
)


class Disk(NamedTuple):
    """Where a file system is mounted, its size, and what is free for a plain user, in bytes."""

    path: str
    size: int
    free: int


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
    return f"{disk.path} ({write_size(disk.size)}, {write_size(disk.free)} free)"


def describe_disk(directory: str) -> str:
    """Return the directory of a run, with the size of what it is on."""
    disk = find_disk(directory)
    return write_disk(disk) if disk else directory


def find_full(paths: list[str], find: Callable[[str], Disk | None] = find_disk) -> list[Disk]:
    """Return the file systems with next to nothing left, each once."""
    disks = [disk for path in paths if (disk := find(path))]
    full = [disk for disk in disks if disk.free < max(LITTLE, disk.size // SHARE)]
    return list({(disk.size, disk.free): disk for disk in reversed(full)}.values())[::-1]
