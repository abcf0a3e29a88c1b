"""What keeps a path of others out of a layer, in words that go after it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.foreign.paths import below_root, find_flaw


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "is empty"),
        ("/etc/passwd", "is absolute"),
        ("..", "leaves its directory"),
        ("a/../../b", "leaves its directory"),
        ("a//b", "has an empty part or a `.`"),
        ("./a", "has an empty part or a `.`"),
        ("a/", "has an empty part or a `.`"),
        ("a/.wh.b", "would hide a file of a lower layer"),
        (".wh..wh..opq", "would hide a file of a lower layer"),
        ("a\nb", "has a control character"),
        ("a\x7f", "has a control character"),
        ("a\udcff", "is not UTF-8"),
        ("a" * 256, "is too long"),
        ("é" * 128, "is too long"),
        (f"{'a' * 249}/" * 12 + "a", "is too long"),
        ("a/" * 201 + "a", "has more than 200 directories"),
    ],
)
def test_a_path_that_a_layer_cannot_have_is_named(path: str, words: str) -> None:
    assert find_flaw(path) == words


@pytest.mark.parametrize(
    "path",
    ["a", "a/b.py", ".hidden", "a..b/..c/d..", "x.data/purelib/é", "a b/c", "a" * 255, "wh.a", "a:b", "a/" * 200 + "a",
     f"{'a' * 249}/" * 11 + "a" * 250],
)  # fmt: skip
def test_a_good_path_has_none(path: str) -> None:
    assert find_flaw(path) is None


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/a/b", "a/b"),
        ("a/../b", "b"),
        ("../../a", "a"),
        ("./a/./b/", "a/b"),
        ("//a", "a"),
        ("", ""),
        ("X11/XX", "X11/XX"),
    ],
)
def test_a_path_stays_below_the_root(path: str, seen: str) -> None:
    assert below_root(path) == seen


@given(st.text())
def test_whatever_the_path_it_does_not_leave_the_root(path: str) -> None:
    assert not below_root(path).startswith(("/", "../")) and below_root(path) != ".."
