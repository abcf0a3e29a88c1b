"""Names and symbol versions of shared libraries, out of files of our own and out of damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from images.base import elf
from tests.support.elf import library

WHOLE = library("liba.so.1", needs=["GLIBC_2.2.5", "GLIBC_2.29"], has=["GLIBCXX_3.4", "GLIBCXX_3.4.30"])


def test_the_name_of_a_library() -> None:
    assert elf.soname(WHOLE) == "liba.so.1"
    assert elf.soname(library()) is None


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        ([], None),
        (["GLIBCXX_3.4.9", "GLIBCXX_3.4.10"], "3.4.10"),
        (["GLIBCXX_3.4", "GLIBCXX_TUNABLES", "GLIBCXX_DEBUG_MESSAGE_LENGTH", "CXXABI_1.3.9"], "3.4"),
        (["liba.so.1", "GLIBC_2.36"], None),
    ],
)
def test_the_newest_version_that_a_library_has(versions: list[str], newest: str | None) -> None:
    assert elf.provided(library(has=versions), "GLIBCXX") == (Version(newest) if newest else None)


@pytest.mark.parametrize(
    ("versions", "newest"),
    [([], "0"), (["GLIBC_2.2.5", "GLIBC_2.29", "GLIBC_2.4", "GLIBCXX_3.4.99"], "2.29"), (["GLIBC_PRIVATE"], "0")],
)
def test_the_newest_version_that_a_library_needs(versions: list[str], newest: str) -> None:
    assert elf.needed(library(needs=versions), "GLIBC") == Version(newest)


@given(st.binary() | st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)) | st.integers(0, len(WHOLE)))
def test_any_file_is_read(change: bytes | tuple[int, int] | int) -> None:
    if isinstance(change, bytes):
        data = change
    elif isinstance(change, int):
        data = WHOLE[:change]
    else:
        data = WHOLE[: change[0]] + bytes([change[1]]) + WHOLE[change[0] + 1 :]

    assert elf.needed(data, "GLIBC") <= Version("2.29")
    assert elf.provided(data, "GLIBCXX") in (None, Version("3.4"), Version("3.4.30")) or data != WHOLE
    elf.soname(data)
