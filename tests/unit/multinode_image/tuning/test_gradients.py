"""What a user may choose of how gradients are exchanged."""

from __future__ import annotations

import pytest

from multinode_image.errors import Refusal
from multinode_image.tuning.gradients import SENT, VARIABLE, describe_sent, read_choice


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (None, ""), ("", ""), (" ", ""), ("float32", "float32"), ("bf16", "bf16"), (" int8 ", "int8"), ("off", "off"),
    ],
)  # fmt: skip
def test_a_choice_is_read(text: str | None, choice: str) -> None:
    environ = {} if text is None else {VARIABLE: text}

    assert read_choice(environ) == choice
    assert choice in SENT


@pytest.mark.parametrize("text", ["powersgd", "powersgd:4", "int8:4", "BF16", "1", "none"])
def test_any_other_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_choice({VARIABLE: text})

    assert (refused.value.code, refused.value.value) == (2, repr(text))
    assert all(name in refused.value.remedy for name in SENT)


@pytest.mark.parametrize(
    ("name", "tables", "sent", "usual", "says", "hides"),
    [
        ("bf16", 0, 132_700_000, 265_400_000, ["as bf16: 132.7 MB a step instead of 265.4 MB ("], ["embedding"]),
        ("float32", 2, 175_000_000, 265_400_000, ["float32, of 2 embeddings the rows"], ["next step"]),
        ("int8", 0, 14_300, 57_000, ["int8: 14.3 kB a step instead of 57.0 kB; what", "from zero"], []),
        ("float32", 0, 265_400_000, 265_400_001, ["float32: 265.4 MB a step ("], ["instead"]),
        ("float32", 1, 84_000, 84_010, [], ["gradients"]),
    ],
)  # fmt: skip
def test_what_is_sent_is_said_where_it_matters(
    name: str, tables: int, sent: int, usual: int, says: list[str], hides: list[str]
) -> None:
    said = describe_sent(name, tables, sent, usual)

    assert all(text in said for text in says) and not any(text in said for text in hides)
