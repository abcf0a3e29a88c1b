"""Symbol versions of the C++ library."""

from __future__ import annotations

import pytest

from images.base import libstdcxx


@pytest.mark.parametrize(
    ("glibc", "symbols"),
    [("2.4", "3.4.8"), ("2.17", "3.4.19"), ("2.28", "3.4.24"), ("2.36", "3.4.30"), ("2.50", "3.4.33")],
)
def test_wheels_ask_for_what_their_tag_allows(glibc: str, symbols: str) -> None:
    assert libstdcxx.needed(glibc) == symbols


@pytest.mark.parametrize(
    ("library", "symbols"),
    [
        (b"", None),
        (b"\0GLIBCXX_3.4.9\0GLIBCXX_3.4.10\0", "3.4.10"),
        (b"\0GLIBCXX_3.4\0GLIBCXX_TUNABLES\0", "3.4"),
        (b"\0GLIBCXX_3.4.9.1\0", None),
    ],
)
def test_the_newest_symbols(library: bytes, symbols: str | None) -> None:
    assert libstdcxx.newest(library) == symbols
