"""Shared libraries that others wrote: their sections, within a bound of what is read."""

from __future__ import annotations

import pytest
from elftools.common.exceptions import ELFError
from hypothesis import given
from hypothesis import strategies as st

from images.foreign import libraries
from tests.support import hostile
from tests.support.elf import library

GOOD = library("liba.so.1", needs=["GLIBC_2.28"], has=["A_1"])


def sonames(data: bytes) -> list[str]:
    found = libraries.section(data, ".dynamic")
    return [tag.soname for tag in found.iter_tags("DT_SONAME")] if found else []


def test_a_section_is_found_by_its_name() -> None:
    assert sonames(GOOD) == ["liba.so.1"]
    assert libraries.section(GOOD, ".nothing") is None


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", GOOD[:30], GOOD[:70]])
def test_what_is_no_library_is_broken(data: bytes) -> None:
    with pytest.raises(libraries.BROKEN):
        sonames(data)


def test_no_more_is_read_than_a_library_needs() -> None:
    file = libraries.Measured(bytes(libraries.MOST_READ // 64))

    for _ in range(64):
        file.seek(0)
        file.read()

    file.seek(0)
    with pytest.raises(ELFError, match="too much to read"):
        file.read(1)


@given(at=hostile.changes | st.just([]), size=st.integers(0, len(GOOD)))
def test_any_library_is_read_or_broken(at: list[hostile.Change], size: int) -> None:
    data = hostile.changed(GOOD, at)[:size]
    try:
        assert isinstance(sonames(data), list)
    except libraries.BROKEN:
        pass
