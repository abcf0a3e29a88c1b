"""Debian's control files as fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.base.control import paragraphs


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", []),
        ("\n\n \n\n", []),
        ("Package: a\nVersion:1:2-3\n", [{"package": "a", "version": "1:2-3"}]),
        ("Package: a\n\n\nPackage: b", [{"package": "a"}, {"package": "b"}]),
        ("A: 1\n \t\nB: 2", [{"a": "1"}, {"b": "2"}]),
        ("Files:\n src/*\n\tdoc/*\n .\nX: y", [{"files": "\nsrc/*\ndoc/*\n.", "x": "y"}]),
        ("A: 1\nneither a field\n nor the rest of one\nB: 2", [{"a": "1", "b": "2"}]),
        (" a rest of nothing\nA: b: c", [{"a": "b: c"}]),
        ("A: 1\r\n\r\nB: 2\r\n", [{"a": "1"}, {"b": "2"}]),
    ],
)
def test_paragraphs(text: str, read: list[dict[str, str]]) -> None:
    assert list(paragraphs(text)) == read


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(name == name.lower() for fields in paragraphs(text) for name in fields)
