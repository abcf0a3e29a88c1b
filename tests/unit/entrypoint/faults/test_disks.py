"""Which file systems of a container are full; all of them are made up."""

from __future__ import annotations

import pytest

from entrypoint.faults.disks import MORE_DISK, Disk, find_full, list_mounts, write_disk

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
        pytest.param([Disk("/", GB, 0), Disk("/etc/hosts", GB, 0)], ["/"], id="mounted twice"),
    ],
)
def test_full_ones_are_found(disks: list[Disk], full: list[str]) -> None:
    by_path = {disk.path: disk for disk in disks}

    assert [each.path for each in find_full([*by_path, "/gone"], by_path.get)] == full


def test_a_disk_is_written_with_its_size() -> None:
    assert write_disk(Disk("/out", 2 * GB, 1 << 20)) == "/out (2.0 GB, 1 MB free)"


def test_a_disk_that_is_full_is_emptied_first() -> None:
    assert MORE_DISK.index("half-written checkpoint") < MORE_DISK.index("--save_total_limit 2")
