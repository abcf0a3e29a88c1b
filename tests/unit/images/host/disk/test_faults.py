"""Disks that are full, and disks that let no program start."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from images.host.disk.faults import disk_fault, require_programs, require_room
from images.host.errors import WorldFault


@pytest.mark.parametrize(
    ("blocks", "free", "is_full"),
    [(1000, 0, True), (1000, 15, True), (1000, 16, False), (0, 0, False)],  # the last says nothing of itself
)
def test_a_full_disk_is_seen(monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, is_full: bool) -> None:
    disk = SimpleNamespace(f_blocks=blocks, f_bfree=free, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)

    if is_full:
        with pytest.raises(WorldFault, match="No space left on device"):
            require_room(Path("/store"))
    else:
        require_room(Path("/store"))


@pytest.mark.parametrize(("flags", "fits"), [(os.ST_NOEXEC | os.ST_NOSUID, False), (os.ST_NOSUID, True)])
def test_a_disk_that_lets_no_program_start_is_named(monkeypatch: pytest.MonkeyPatch, flags: int, fits: bool) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))

    if fits:
        require_programs(Path("/hard"), "the store", "another")
        return
    with pytest.raises(WorldFault) as caught:
        require_programs(Path("/hard"), "the store", "another")
    assert str(caught.value) == "error: programs cannot be started in the store: /hard (noexec)\n  try: another"


@pytest.mark.parametrize(
    ("number", "names", "named"),
    [
        (errno.EACCES, ("/store/blobs/0",), "/store/blobs/0 (Permission denied)"),
        (errno.EACCES, ("/wheel", "/store/blobs/0"), "/store/blobs/0 (Permission denied)"),
        (errno.EACCES, ("/store",), "/store (Permission denied)"),
        (errno.EACCES, (), "/store (Permission denied)"),
        (errno.ENOSPC, ("/store/aside/xyz",), "/store (No space left on device)"),
    ],
)
def test_what_is_somebody_elses_in_a_store_is_named(number: int, names: tuple[str, ...], named: str) -> None:
    first, second = (*names, None, None)[:2]

    fault = disk_fault(Path("/store"), OSError(number, "no", first, None, second))

    assert fault.value == named
    assert ("chown" in fault.remedy) == ("0" in named)
