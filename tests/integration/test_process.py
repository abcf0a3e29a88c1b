"""Programs that are asked something: what they answered, and that they do not keep a build waiting."""

from __future__ import annotations

import os
import time

import pytest

from images.host.errors import WorldFault
from images.host.process import Result, answer


@pytest.mark.parametrize(
    ("script", "seconds", "expected"),
    [
        ("echo out; echo err >&2; exit 3", 60, Result(3, "out\n", "err\n")),
        ("cat", 60, Result(0, "", "")),
        ("sleep 60", 0.1, None),
        ("trap '' TERM INT; sleep 60 & wait; sleep 60", 0.1, None),
    ],
)
def test_who_does_not_answer_in_time_is_killed(script: str, seconds: float, expected: Result | None) -> None:
    begun = time.monotonic()

    assert answer(["sh", "-c", script], {"PATH": os.defpath}, "install it", seconds) == expected
    assert time.monotonic() - begun < 30


def test_who_is_not_there_cannot_answer() -> None:
    with pytest.raises(WorldFault, match=r"(?s)cannot start a program: nowhere .*try: install it"):
        answer(["nowhere"], {"PATH": os.defpath}, "install it", 60)


def test_what_no_program_can_be_given_is_named() -> None:
    with pytest.raises(WorldFault, match=r"cannot start a program: true .*null byte"):
        answer(["true"], {"PATH": os.defpath, "A": "\0"}, "install it", 60)
