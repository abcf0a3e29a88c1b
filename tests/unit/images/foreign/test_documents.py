"""JSON that others wrote: read, or refused by a ValueError."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.foreign import documents
from tests.support.hostile import nested, values


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
        found = documents.parse_json(data)
    except ValueError:
        return
    assert json.loads(json.dumps(found)) == found
    assert isinstance(str(found), str)
