"""Disks that are full, and disks that let no program start."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from images.host.disk.faults import disk_fault, is_read_from


@pytest.mark.parametrize(
    ("number", "names", "named"),
    [
        (errno.EACCES, ("store/aside",), "store/aside (Permission denied)"),
        (errno.EACCES, ("wheel", "store/blobs/0/blob"), "store/blobs/0/blob (Permission denied)"),
        (errno.EPERM, ("store/blobs/held",), "store/blobs/held (Operation not permitted)"),
        (errno.EACCES, ("store",), "store (Permission denied)"),
        (errno.EACCES, (), "store (Permission denied)"),
        (errno.ENOSPC, ("store/blobs/0",), "store (No space left on device)"),
    ],
)
def test_what_is_not_permitted_in_a_store_is_named(
    tmp_path: Path, number: int, names: tuple[str, ...], named: str
) -> None:
    first, second = (*(str(tmp_path / name) for name in names), None, None)[:2]

    fault = disk_fault(tmp_path / "store", OSError(number, "no", first, None, second))

    assert fault.value == f"{tmp_path}/{named}"
    assert ("chown" in fault.remedy) == ("store/" in named)


@pytest.mark.parametrize(
    ("names", "is_of_store"),
    [(("store/blobs/0",), True), (("out/a.tar",), False), (("store/blobs/0", "out/a.tar"), False), ((), False)],
)
def test_of_a_copy_that_failed_the_store_is_where_it_was_read(
    tmp_path: Path, names: tuple[str, ...], is_of_store: bool
) -> None:
    first, second = (*(str(tmp_path / name) for name in names), None, None)[:2]

    assert is_read_from(tmp_path / "store", OSError(errno.EACCES, "no", first, None, second)) is is_of_store
