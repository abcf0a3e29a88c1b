"""Control files: paragraphs, relations, and the order of versions against dpkg's own rule."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.debian.control import Relation, fields, key, paragraphs, relations

PART = st.text("019aZ~+.", max_size=6)
VERSIONS = st.builds(
    lambda epoch, upstream, revision: f"{epoch}{upstream}{revision}",
    st.sampled_from(["", "0:", "1:", "10:"]), PART, st.one_of(st.just(""), PART.map("-{}".format)),
)  # fmt: skip


def compare_as_dpkg(one: str, other: str) -> int:
    """Compare two versions as dpkg does (lib/dpkg/version.c, dpkg_version_compare and verrevcmp)."""
    for mine, theirs in zip(split(one), split(other), strict=True):
        if found := compare_parts(mine, theirs):
            return found
    return 0


def split(version: str) -> tuple[str, str, str]:
    epoch, colon, rest = version.partition(":")
    upstream, hyphen, revision = (rest if colon else version).rpartition("-")
    return (epoch if colon else "0", upstream if hyphen else revision, revision if hyphen else "")


def order(character: str) -> int:
    if character.isdigit():
        return 0
    if character.isalpha():
        return ord(character)
    return -1 if character == "~" else ord(character) + 256


def compare_parts(one: str, other: str) -> int:
    at, to = 0, 0
    while at < len(one) or to < len(other):
        while (at < len(one) and not one[at].isdigit()) or (to < len(other) and not other[to].isdigit()):
            mine, theirs = order(one[at]) if at < len(one) else 0, order(other[to]) if to < len(other) else 0
            if mine != theirs:
                return mine - theirs
            at, to = at + 1, to + 1
        numbers = ["".join(itertools.takewhile(str.isdigit, text)) for text in (one[at:], other[to:])]
        if difference := int(numbers[0] or 0) - int(numbers[1] or 0):
            return difference
        at, to = at + len(numbers[0]), to + len(numbers[1])
    return 0


@given(VERSIONS, VERSIONS)
def test_versions_are_in_the_order_of_dpkg(one: str, other: str) -> None:
    expected = compare_as_dpkg(one, other)

    assert (key(one) < key(other), key(one) == key(other)) == (expected < 0, expected == 0)


def test_relations_are_read_with_alternatives_versions_and_without_architectures() -> None:
    assert relations("libc6 (>= 2.34), a:any | b (<< 1:2~), python3.11 (= 3.11.2-6)") == (
        (Relation("libc6", ">=", "2.34"),),
        (Relation("a"), Relation("b", "<<", "1:2~")),
        (Relation("python3.11", "=", "3.11.2-6"),),
    )
    assert relations("") == ()
    with pytest.raises(ValueError, match="no relation"):
        relations("libc6 (newer than 2)")


@pytest.mark.parametrize(
    ("operator", "holds"),
    [("<<", (True, False, False)), ("<=", (True, True, False)), ("=", (False, True, False)),
     (">=", (False, True, True)), (">>", (False, False, True)), ("", (True, True, True))],
)  # fmt: skip
def test_a_relation_means_versions(operator: str, holds: tuple[bool, ...]) -> None:
    assert tuple(Relation("a", operator, "2").holds(version) for version in ("1.9", "2", "2.0.1")) == holds


def test_a_value_goes_on_in_the_next_lines() -> None:
    assert fields("A: b\nDescription: one\n two\n .\nConffiles:\n /etc/a 1\n") == {
        "A": "b", "Description": "one\n two\n .", "Conffiles": "\n /etc/a 1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", []),
        ("\n\n \n\n", []),
        ("Package: a\nVersion:1:2-3\n", [{"package": "a", "version": "1:2-3"}]),
        ("Package: a\n\n\nPackage: b", [{"package": "a"}, {"package": "b"}]),
        ("A: 1\n \t\nB: 2", [{"a": "1"}, {"b": "2"}]),
        ("Files:\n src/*\n\tdoc/*\n .\nX: y", [{"files": "src/*\n\tdoc/*\n .", "x": "y"}]),
        ("A: 1\nneither a field\n nor the rest of one\nB: 2", [{"a": "1", "b": "2"}]),
        (" a rest of nothing\nA: b: c", [{"a": "b: c"}]),
        ("A: 1\r\n\r\nB: 2\r\n", [{"a": "1"}, {"b": "2"}]),
    ],
)
def test_a_control_file_is_read_as_paragraphs(text: str, read: list[dict[str, str]]) -> None:
    assert list(paragraphs(text)) == read


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(name == name.lower() for fields in paragraphs(text) for name in fields)
    try:
        relations(text)
    except ValueError:
        pass
