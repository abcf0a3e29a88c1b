"""Disks that are full, and disks that let no program start."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from images.host.disk.faults import disk_fault, is_read_from


@pytest.mark.parametrize(
    ("number", "names", "closed", "named"),
    [
        (errno.EACCES, ("store/aside",), "store", "store (Permission denied)"),
        (errno.EACCES, ("store/blobs/0/.new-x",), "store/blobs", "store/blobs (Permission denied)"),
        (errno.EACCES, ("wheel", "store/blobs/0/blob"), "store/blobs", "store/blobs (Permission denied)"),
        (errno.EACCES, ("store/blobs/held",), "store/blobs/held", "store/blobs/held (Permission denied)"),
        (errno.EPERM, ("store/blobs/held",), None, "store/blobs/held (Operation not permitted)"),
        (errno.EACCES, ("store",), "store", "store (Permission denied)"),
        (errno.EACCES, (), "store", "store (Permission denied)"),
        (errno.ENOSPC, ("store/blobs/0",), None, "store (No space left on device)"),
    ],
)
def test_what_is_somebody_elses_in_a_store_is_named(
    tmp_path: Path, number: int, names: tuple[str, ...], closed: str | None, named: str
) -> None:
    """Whatever an error names: often that is what was about to be made, and is not there."""
    (tmp_path / "store/blobs").mkdir(parents=True)
    (tmp_path / "store/blobs/held").touch()
    first, second = (*(str(tmp_path / name) for name in names), None, None)[:2]

    def access(path: Path, mode: int) -> bool:  # root may do anything
        return os.access(path, mode) and (mode == os.F_OK or closed is None or path != tmp_path / closed)

    fault = disk_fault(tmp_path / "store", OSError(number, "no", first, None, second), access)

    assert fault.value == f"{tmp_path}/{named}"
    assert ("chown" in fault.remedy) == (number != errno.ENOSPC and any("store/" in name for name in names))


@pytest.mark.parametrize(
    ("names", "is_of_store"),
    [(("store/blobs/0",), True), (("out/a.tar",), False), (("store/blobs/0", "out/a.tar"), False), ((), False)],
)
def test_of_a_copy_that_failed_the_store_is_where_it_was_read(
    tmp_path: Path, names: tuple[str, ...], is_of_store: bool
) -> None:
    first, second = (*(str(tmp_path / name) for name in names), None, None)[:2]

    assert is_read_from(tmp_path / "store", OSError(errno.EACCES, "no", first, None, second)) is is_of_store
