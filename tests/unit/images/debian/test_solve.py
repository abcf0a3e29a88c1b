"""Which packages are chosen, as apt chooses them on an empty system."""

from __future__ import annotations

import pytest

from images.debian.solve import Row, Universe, Unsolvable, closure


def rows(*said: str) -> list[Row]:
    """Read `NAME VERSION; Field: value; ...`."""
    found: list[Row] = []
    for text in said:
        head, *others = text.split("; ")
        name, version = head.split()
        found.append({"Package": name, "Version": version, **dict(each.split(": ", 1) for each in others)})
    return found


@pytest.mark.parametrize(
    ("universe", "names", "expected"),
    [
        (["a 1; Depends: b, c", "b 1; Pre-Depends: d", "c 1", "d 1", "e 1"], ["a"], "a b c d"),
        (["a 1; Depends: b | c", "b 1", "c 1"], ["a"], "a b"),  # the first alternative
        (["a 1; Depends: b | c", "b 1", "c 1"], ["a", "c"], "a c"),  # unless another one is there
        (["a 1; Depends: x", "b 1; Provides: x", "c 1; Provides: x"], ["a"], "a b"),
        (["a 1; Depends: x (>= 2)", "b 1; Provides: x", "c 1; Provides: x (= 3)"], ["a"], "a c"),
        (["a 1; Depends: b (>= 2)", "b 1", "b 2~x", "b 2"], ["a"], "a b"),  # the newest, whichever suite has it
        (["a 1; Depends: b; Conflicts: c", "b 1", "c 1"], ["a"], "a b"),
        (["a 1; Provides: x; Conflicts: x"], ["a"], "a"),  # a package may replace what it provides
    ],
)
def test_packages_come_with_what_they_need(universe: list[str], names: list[str], expected: str) -> None:
    assert " ".join(row["Package"] for row in closure(Universe(rows(*universe)), names)) == expected


@pytest.mark.parametrize(
    ("universe", "said"),
    [
        (["b 1"], "there is no package a"),
        (["a 1; Depends: b (>= 2) | c", "b 1"], "a needs b or c"),
        (["a 1; Depends: b", "b 1; Breaks: a (<< 2)"], "b does not go with a"),
    ],
)
def test_what_cannot_be_is_said(universe: list[str], said: str) -> None:
    with pytest.raises(Unsolvable, match=said.replace("(", r"\(")):
        closure(Universe(rows(*universe)), ["a"])


def test_what_no_system_is_without_is_in_every_base() -> None:
    suite = "Suite: bookworm"
    found = rows(
        f"a 1; Essential: yes; {suite}", f"b 1; Priority: required; {suite}", f"c 1; Priority: important; {suite}",
        "d 1; Essential: yes; Suite: bookworm-updates",
    )  # fmt: skip

    assert Universe(found).essential("bookworm") == ["a", "b"]
