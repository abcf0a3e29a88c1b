"""Shared libraries that others wrote: their sections, within a bound of what is read."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.foreign import libraries
from images.host.limits import Bounded
from tests.support import hostile
from tests.support.elf import library

GOOD = library("liba.so.1", needs=["GLIBC_2.28"], has=["A_1"])


def soname(data: bytes) -> str | None:
    tags = libraries.read_section(io.BytesIO(data), ".dynamic", lambda section: section.iter_tags("DT_SONAME"))
    return next((str(tag.soname) for tag in tags), None)


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", GOOD[:30], GOOD[:70], library()])
def test_a_library_is_known_by_its_soname_and_what_is_none_has_none(data: bytes) -> None:
    assert soname(GOOD) == "liba.so.1"
    assert soname(data) is None


def test_a_damaged_count_is_not_believed() -> None:
    assert len(libraries.read_section(io.BytesIO(GOOD), ".dynamic", lambda _: itertools.repeat("x"))) == libraries.MOST
    assert libraries.read_section(io.BytesIO(GOOD), ".nothing", lambda _: ["x"]) == []


def test_no_more_is_read_than_a_library_needs() -> None:
    file = Bounded(io.BytesIO(bytes(100)), 200)

    for _ in range(2):
        file.seek(0)
        file.read()

    file.seek(0)
    with pytest.raises(ValueError, match="more than 200 bytes"):
        file.read(1)


@given(at=hostile.changes | st.just([]), size=st.integers(0, len(GOOD)))
def test_any_library_is_read(at: list[hostile.Change], size: int) -> None:
    assert isinstance(soname(hostile.changed(GOOD, at)[:size]), str | None)
