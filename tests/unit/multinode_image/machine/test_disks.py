"""Which file systems of a container are full."""

from __future__ import annotations

from pathlib import Path

import pytest

from multinode_image.machine import disks
from multinode_image.machine.disks import Disk, find_disk, find_full

MOUNTINFO = """\
1 0 0:1 / / rw,relatime - overlay overlay rw
2 1 0:2 / /proc rw,nosuid - proc proc rw
3 1 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw
4 1 0:4 / /workspace/my\\040output rw - ext4 /dev/vda rw
5 1 0:5 / /data ro,relatime - ext4 /dev/vdb rw
6 1 0:4 / /twice rw - ext4 /dev/vda rw
damaged
"""
GB = 1 << 30


@pytest.mark.parametrize(
    ("disk", "full"),
    [
        pytest.param(Disk("/out", GB, 0), True, id="nothing"),
        pytest.param(Disk("/", 100 * GB, GB), True, id="less than a large file"),
        pytest.param(Disk("/", 100 * GB, 3 * GB), False, id="enough"),
        pytest.param(Disk("/tiny", 2 << 20, 1 << 19), True, id="small"),
        pytest.param(Disk("/lustre", 100_000 * GB, 1900 * GB), False, id="much, if little of a large one"),
        pytest.param(Disk("/lustre", 100_000 * GB, 4 * GB), True, id="little of a large one"),
        pytest.param(Disk("/out", GB, GB, 5, 0), True, id="no inode"),
        pytest.param(Disk("/out", GB, GB, 5, 1), False, id="an inode of few"),
        pytest.param(Disk("/out", GB, GB, 1 << 20, 99), True, id="few inodes of many"),
        pytest.param(Disk("/out", GB, GB, 1 << 20, 100), False, id="enough inodes"),
        pytest.param(Disk("/btrfs", GB, GB, 0, 0), False, id="no number of inodes"),
    ],
)
def test_a_disk_is_full(disk: Disk, full: bool) -> None:
    assert disk.is_full == full


def test_full_ones_that_may_be_written_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "find_disk", lambda path: Disk(path, GB, 0 if path != "/" else GB))

    assert [each.path for each in find_full({"/proc/self/mountinfo": MOUNTINFO}.get)] == ["/workspace/my output"]


def test_the_disk_of_a_directory_is_measured(tmp_path: Path) -> None:
    disk = find_disk(str(tmp_path))
    assert disk and disk.path == str(tmp_path) and disk.size >= disk.free
    assert find_disk(f"{tmp_path}/gone") is None
