"""Which file systems of a container are full; all of them are made up."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from entrypoint.faults.disks import MORE_DISK, Disk, find_directory, find_disk, find_full, list_mounts, write_disk

MOUNTINFO = """\
1 0 0:1 / / rw,relatime - overlay overlay rw
2 1 0:2 / /proc rw,nosuid - proc proc rw
3 1 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw
4 1 0:4 / /workspace/my\\040output rw - ext4 /dev/vda rw
5 1 0:5 / /data ro,relatime - ext4 /dev/vdb rw
6 1 0:6 / /dev/shm rw shared:7 - tmpfs shm rw
damaged
"""
GB = 1 << 30


def test_what_may_be_written_is_found() -> None:
    assert list_mounts({"/proc/self/mountinfo": MOUNTINFO}.get) == ["/", "/workspace/my output", "/dev/shm"]


@pytest.mark.parametrize(
    ("disks", "full"),
    [
        pytest.param([Disk("/", 9 * GB, 5 * GB), Disk("/out", GB, 0)], ["/out"], id="one of two"),
        pytest.param([Disk("/", 100 * GB, GB)], ["/"], id="less than a large file"),
        pytest.param([Disk("/", 100 * GB, 3 * GB)], [], id="enough"),
        pytest.param([Disk("/tiny", 2 << 20, 1 << 19)], ["/tiny"], id="small"),
        pytest.param([Disk("/lustre", 100_000 * GB, 1900 * GB)], [], id="much, if little of a large one"),
        pytest.param([Disk("/lustre", 100_000 * GB, 4 * GB)], ["/lustre"], id="little of a large one"),
        pytest.param([Disk("/out", 9 * GB, 5 * GB, 0)], ["/out"], id="no more files"),
        pytest.param([Disk("/out", 9 * GB, 5 * GB, 1000)], [], id="room for files"),
        pytest.param([Disk("/", GB, 0), Disk("/etc/hosts", GB, 0)], ["/"], id="mounted twice"),
    ],
)
def test_full_ones_are_found(disks: list[Disk], full: list[str]) -> None:
    by_path = {disk.path: disk for disk in disks}

    assert [each.path for each in find_full([*by_path, "/gone"], by_path.get)] == full


@pytest.mark.parametrize(("files", "said"), [(None, ""), (1000, ""), (0, ", 0 inodes free"), (3, ", 3 inodes free")])
def test_a_disk_is_written_with_its_size(files: int | None, said: str) -> None:
    assert write_disk(Disk("/out", 2 * GB, 1 << 20, files)) == f"/out (2.0 GB, 1 MB free{said})"


def test_the_disk_of_a_directory_is_measured(tmp_path: Path) -> None:
    disk = find_disk(str(tmp_path))
    assert disk and disk.path == str(tmp_path) and disk.size >= disk.free
    assert find_disk(f"{tmp_path}/gone") is None


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "{}/run/gone/model.safetensors"), "{}/run"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "{}/run"), "{}/run"),
        (OSError(errno.ENOSPC, "No space left on device"), ""),
        (OSError(errno.EACCES, "Permission denied", "{}/run"), ""),
        (OSError(errno.ENOSPC, "No space left on device", 3), ""),
        (RuntimeError("basic_ios::clear: iostream error"), ""),
    ],
)
def test_the_directory_of_the_file_in_an_error_is_found(tmp_path: Path, error: Exception, name: str) -> None:
    (tmp_path / "run").mkdir()
    if isinstance(error, OSError) and isinstance(error.filename, str):
        error.filename = error.filename.format(tmp_path)
    assert find_directory(error) == name.format(tmp_path)


def test_a_disk_that_is_full_is_emptied_first() -> None:
    assert MORE_DISK.index("half-written checkpoint") < MORE_DISK.index("--save_total_limit 2")
