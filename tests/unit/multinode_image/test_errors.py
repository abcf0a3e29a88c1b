"""The error type: three parts in two rows."""

from __future__ import annotations

import pytest

from multinode_image.errors import Refusal, list_causes, one_row


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a\tb ä", "a\tb ä"),
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("1\rmultinode", "1\\rmultinode"),
        ("\x85x", "\\x85x"),
        ("\u2028", "\\u2028"),
        ("\udcff", "\\udcff"),
        ("", ""),
    ],
)
def test_no_value_forges_a_row_of_the_log(text: str, row: str) -> None:
    assert one_row(text) == row
    refusal = Refusal("a fact", f"x{text}", f"export A={text}")
    assert (len(str(refusal).splitlines()), len(refusal.note.splitlines())) == (2, 1)


def test_causes_are_those_of_a_traceback() -> None:
    first, second, last = ValueError("a"), KeyError("b"), OSError("c")
    last.__context__, second.__context__ = second, first
    assert list_causes(last) == [last, second, first]
    second.__cause__ = last
    assert list_causes(last) == [last, second]
    second.__cause__, last.__suppress_context__ = None, True
    assert list_causes(last) == [last]
