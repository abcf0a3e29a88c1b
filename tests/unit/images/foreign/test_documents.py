"""JSON that others wrote: read, or refused by a ValueError."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from images.foreign import documents
from images.foreign.documents import list_elements
from tests.support.growth import assert_linear, repeat
from tests.support.hostile import nested, values


def test_keys_that_another_document_does_not_have_are_named_with_those_above() -> None:
    given = {"a": [{"b": 1, "c": 1}, {"x": 1}], "d": {"e": 1}, "f": 1}

    assert documents.list_unknown_keys(given, {"a": [{"b": 2}], "d": {}, "f": {}}) == ["a.0.c", "d.e"]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"\xff", b'{"a": NaN}', b"-Infinity", b"[" * 100_000, json.dumps(nested(101)).encode(), b"9" * 5000,
        b'"\xed\xa0', b"\xef\xbb\xbf", b'{"a": {"b": 1}, "a": {}}', b'{"a": 1, "\\u0061": 1}', b"1e999",
        b"-1e999", b"9" * 400, str(2**64).encode(), str(-(2**63) - 1).encode(), b"[" + b"1," * documents.MOST + b"1]",
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        documents.parse_json(data)


def test_json_of_few_levels_is_read() -> None:
    value = {"a": [1, {"b": None}], "c": nested(98)}

    assert documents.parse_json(json.dumps(value).encode()) == value
    assert documents.parse_json(b'[{"a": 1}, {"a": 1.5}]') == [{"a": 1}, {"a": 1.5}]
    assert documents.parse_json(f"[{2**64 - 1}, {-(2**63)}]".encode()) == [2**64 - 1, -(2**63)]


@given(st.binary() | values.map(lambda value: json.dumps(value).encode()))
def test_what_is_read_can_be_written_and_shown(data: bytes) -> None:
    try:
        value = documents.parse_json(data)
    except ValueError:
        return
    assert json.loads(json.dumps(value)) == value
    assert isinstance(str(value), str)


# Tags of HTML: what a browser takes for one, in time by the length of a page.

WANTED = ("href", "name")


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ('<a href="x&amp;y" class=z>t</a>', [("a", {"href": "x&y"})]),
        ("<A HREF='x>y' href=2 data-yanked>", [("a", {"href": "x>y"})]),
        ("<a\nhref = x/y><br/><p>", [("a", {"href": "x/y"}), ("br", {}), ("p", {})]),
        ("<!-- <a href=1> --><a href=2>", [("a", {"href": "2"})]),
        ("<script>'<a href=1>'</SCRIPT ><a href=2>", [("script", {}), ("a", {"href": "2"})]),
        ("<title><a href=1></title>", [("title", {})]),
        ("1 < 2 </a> <!DOCTYPE html> <?x?><b>", [("b", {})]),
        ('<a href="no end><a href=2>', []),
        ("<a href=2", []),
        ("<!-- <a href=1>", []),
        ("<script><a href=1>", [("script", {})]),
        ('<a href=1 =x "y" href>', [("a", {"href": "1"})]),
        ("", []),
    ],
)
def test_tags_and_attributes_are_read_as_a_browser_does(text: str, tags: list[tuple[str, dict[str, str]]]) -> None:
    assert [*list_elements(text, WANTED)] == tags


UNITS = (
    '<a b="c',
    '<a href="',
    "<!--",
    "<meta charset=",
    "<a ",
    "<",
    "<a<",
    "<script>",
    "&amp",
    "<a href=&",
    "= ",
    "<a/",
)


@pytest.mark.parametrize("unit", UNITS)
def test_a_malformed_page_takes_time_by_its_length(unit: str) -> None:
    assert_linear(lambda text: [*list_elements(text, WANTED)], repeat(unit, "<p>"))


class Theirs(HTMLParser):
    """The tags that the standard library finds."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        first = {name: value or "" for name, value in reversed(attrs) if name in WANTED}
        self.tags.append((tag, dict(sorted(first.items()))))


@given(st.lists(st.sampled_from(["<a ", "<p", ">", " href=", '"x"', "'y'", "z", " name", "</a>", " ", "&lt;", "text"])))
def test_well_formed_tags_are_those_of_the_standard_library(parts: list[str]) -> None:
    text = "<p>" + "".join(parts) + ">"
    theirs = Theirs()
    theirs.feed(text)
    theirs.close()
    ours = [(name, dict(sorted(attributes.items()))) for name, attributes in list_elements(text, WANTED)]

    assume("=>" not in text and "= " not in text)  # a value that is not there
    assert ours == theirs.tags
