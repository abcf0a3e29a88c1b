"""The file systems that a training writes to, and which of them are full."""

from __future__ import annotations

import os
from typing import NamedTuple

from multinode_image.machine.files import Files, measure_file_system
from multinode_image.machine.limits import write_size
from multinode_image.machine.places import read_mounts

# Kinds of file systems that have no space to run out of.
NEVER = ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "devtmpfs", "nsfs", "securityfs", "debugfs")
# A file system counts as full with less than this left: so many bytes, or this part of the whole, one 50th. What could
# not be written may be gone again: a file of a checkpoint that has 5 GB (transformers, max_shard_size), or several.
LITTLE, SHARE, FILE = 1 << 20, 50, 5 << 30
MORE_ROOM = (
    "remove what is not needed there, such as a half-written checkpoint, or mount a larger volume; the same command "
    "then goes on from the last complete checkpoint"
)


class Disk(NamedTuple):
    """A directory on a file system, and what is free there for a plain user, in bytes."""

    path: str
    size: int
    free: int

    @property
    def is_full(self) -> bool:
        """Return whether next to nothing is left."""
        return self.free < max(LITTLE, min(self.size // SHARE, FILE))

    def __str__(self) -> str:
        """Return where it is, and how much of it is free."""
        return f"{self.path} ({write_size(self.size)}, {write_size(self.free)} free)"


def find_disk(path: str) -> Disk | None:
    """Return the file system at a directory; None if it cannot be asked, or if the path is that of a file."""
    sizes = measure_file_system(path)
    return Disk(path, *sizes) if sizes and sizes[0] and os.path.isdir(path) else None


def find_full(files: Files) -> list[Disk]:
    """Return the file systems of this container that may be written and have next to nothing left, each once."""
    rows = read_mounts(files("/proc/self/mountinfo"))
    points = [point for point, kind, options in rows if kind not in NEVER and "ro" not in options]
    full = [disk for point in points if (disk := find_disk(point)) and disk.is_full]
    return list({disk._replace(path=""): disk for disk in reversed(full)}.values())[::-1]
