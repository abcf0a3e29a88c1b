"""Control files: paragraphs, relations, and the order of versions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.debian.control import Relation, parse_fields, parse_paragraphs, parse_relations, version_key

# Of each two neighbours, `dpkg --compare-versions` calls the first the older one.
IN_ORDER = (
    "0~~", "0~~a", "0~", "0", "1.0~rc1-1", "1.0", "1.0-0.1", "1.0-1~deb12u1", "1.0-1", "1.0-1+b1", "1.0-1.1", "1.0-10",
    "1.0a", "1.0+b", "1.0-x-1", "1.0.1", "1.2", "1.10", "10", "1:0.1~", "1:0.1", "10:0",
)  # fmt: skip


def test_versions_are_in_the_order_of_dpkg() -> None:
    for older, newer in itertools.pairwise(IN_ORDER):
        assert version_key(older) < version_key(newer), (older, newer)


@pytest.mark.parametrize("same", ["0:1.0", "1.0-0", "1.00", "01.0"])
def test_versions_are_equal_that_dpkg_calls_equal(same: str) -> None:
    assert version_key(same) == version_key("1.0")


def test_relations_are_read_with_alternatives_versions_and_without_architectures() -> None:
    assert parse_relations("libc6 (>= 2.34), a:any | b (<< 1:2~), python3.11 (= 3.11.2-6)") == (
        (Relation("libc6", ">=", "2.34"),),
        (Relation("a"), Relation("b", "<<", "1:2~")),
        (Relation("python3.11", "=", "3.11.2-6"),),
    )
    assert parse_relations("") == ()
    with pytest.raises(ValueError, match="no relation"):
        parse_relations("libc6 (newer than 2)")


@pytest.mark.parametrize(
    ("operator", "holds"),
    [("<<", (True, False, False)), ("<=", (True, True, False)), ("=", (False, True, False)),
     (">=", (False, True, True)), (">>", (False, False, True)), ("", (True, True, True))],
)  # fmt: skip
def test_a_relation_means_versions(operator: str, holds: tuple[bool, ...]) -> None:
    assert tuple(Relation("a", operator, "2").holds(version) for version in ("1.9", "2", "2.0.1")) == holds


def test_a_value_goes_on_in_the_next_lines() -> None:
    assert parse_fields("A: b\nDescription: one\n two\n .\nConffiles:\n /etc/a 1\n") == {
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
    assert list(parse_paragraphs(text)) == read


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(name == name.lower() for fields in parse_paragraphs(text) for name in fields)
    try:
        parse_relations(text)
    except ValueError:
        pass
