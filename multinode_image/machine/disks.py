"""The file systems that a training writes to, and which of them are full."""

from __future__ import annotations

import os
from typing import NamedTuple

from multinode_image.machine.files import Files, count_files, measure_file_system
from multinode_image.machine.limits import write_size
from multinode_image.machine.places import read_mounts

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
