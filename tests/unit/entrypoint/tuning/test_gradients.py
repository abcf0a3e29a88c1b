"""What a user may choose of how gradients are exchanged."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.tuning.gradients import SENT, VARIABLE, Choice, read_choice


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (None, Choice("")), ("", Choice("")), (" ", Choice("")), ("float32", Choice("float32")),
        ("bf16", Choice("bf16")), (" int8 ", Choice("int8")), ("off", Choice("off")),
        ("powersgd:1", Choice("powersgd", 1)), ("powersgd:64", Choice("powersgd", 64)),
    ],
)  # fmt: skip
def test_a_choice_is_read(text: str | None, choice: Choice) -> None:
    environ = {} if text is None else {VARIABLE: text}

    assert read_choice(environ) == choice
    assert choice.name in SENT


@pytest.mark.parametrize(
    "text", ["powersgd", "powersgd:", "powersgd:0", "powersgd:65", "powersgd:²", "powersgd:-1", "int8:4", "BF16", "1"]
)
def test_any_other_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_choice({VARIABLE: text})

    assert (refused.value.code, refused.value.value) == (2, repr(text))
    assert all(name in refused.value.remedy for name in SENT)
