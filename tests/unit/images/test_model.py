"""What a text in a lock must match, as pydantic holds it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from images import model


def taken(kind: Any, value: object) -> bool:
    try:
        return bool(TypeAdapter(kind).validate_python(value) == value)
    except ValidationError:
        return False


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (model.Flag, [True, False], [1, 0, "yes", "true", None, 1.0]),
        (model.Release, ["2.13.0", "2.4.0+cpu", "1!2.0"], ["-1", "v1", "1 ", "1\n", "1" * 101, "\u0661.0"]),
        (model.Minor, ["3.11"], ["3", "3.11.2", "3.11\n", "-3.1", f"3.{'1' * 20}"]),
        (model.Word, ["bookworm", "a+b.c_d-e"], ["-o", "", "A", "a b", "a\n", "a/b"]),
        (model.Module, ["torch_ccl", "_a"], ["a.b", "1a", "a-b", "a\n", ""]),
        (model.Address, ["https://a/b?c"], ["http://a", "https://", "https://a b", "https://a\n", "file:///a"]),
        (model.Line, ["", "a b", "\u00e9"], ["a\nb", "a\tb", "a\0", "\n"]),
    ],
)
def test_a_text_matches_as_a_whole(kind: Any, good: list[object], bad: list[object]) -> None:
    assert [value for value in good if not taken(kind, value)] == []
    assert [value for value in bad if taken(kind, value)] == []
