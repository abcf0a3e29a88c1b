"""Arguments by name, typed or in a JSON file."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.errors import Refusal
from entrypoint.training.arguments import find_output, read_given


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["--bf16", "--output-dir", "/out"], {"bf16": True, "output_dir": "/out"}),
        (["x", "--output_dir=/a", "--output_dir", "/b"], {"output_dir": "/b"}),
        (["args.json"], {"output_dir": "/json", "bf16": True}),
        (["args.json", "--bf16"], {"bf16": True}),
    ],
)
def test_given(words: list[str], expected: dict[str, object]) -> None:
    text = '{"output_dir": "/json", "bf16": true}'
    assert read_given(words, lambda path: text, strict=True) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: a.json"),
        ("", "is not JSON: a.json: Expecting value"),
        ("{'a': 1}", "is not JSON"),
        ("[1]", "is not a JSON object: a.json: a list"),
        ("null", "is not a JSON object: a.json: a NoneType"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_file_without_arguments(text: str | None, said: str) -> None:
    with pytest.raises(Refusal, match=re.escape(said)):
        read_given(["a.json"], lambda path: text, strict=True)
    assert read_given(["a.json"], lambda path: text, strict=False) == {}


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_file_is_an_object_or_refused(text: str) -> None:
    try:
        assert isinstance(read_given(["a.json"], lambda path: text, strict=True), dict)
    except Refusal as refusal:
        assert refusal.code == 2


@pytest.mark.parametrize(
    ("value", "directory"),
    [
        ("/out", "/out"),
        (True, None),
        (3, None),
        ("", None),
        ("s3://bucket/out", None),
        ("/a\0b", None),
        ("/\ud800", None),
    ],
)
def test_output(value: object, directory: str | None) -> None:
    assert find_output({"output_dir": value}) == directory
