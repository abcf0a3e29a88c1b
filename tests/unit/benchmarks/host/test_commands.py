"""How a command ends that takes too long, or that ^C ends."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any, cast

import pytest

from benchmarks.host import commands


class Child:
    """Stand for a process that ends by one of these signals."""

    pid = 4711

    def __init__(self, *ends_by: int) -> None:
        self.ends_by, self.code, self.sent = ends_by, cast(int | None, None), list[int]()

    def poll(self) -> int | None:
        return self.code

    def send(self, pid: int, number: int) -> None:
        assert pid == self.pid
        self.sent.append(number)
        if number in self.ends_by:
            self.code = -number

    def wait(self, seconds: float) -> int:
        if self.code is None:
            raise subprocess.TimeoutExpired("build.py", seconds)
        return self.code


@pytest.mark.parametrize(
    ("ends_by", "sent"),
    [((signal.SIGINT,), [signal.SIGINT]), ((signal.SIGKILL,), [signal.SIGINT, signal.SIGKILL])],
)
def test_a_command_may_clean_up_before_it_is_killed(
    ends_by: tuple[int, ...], sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child(*ends_by)
    monkeypatch.setattr(os, "killpg", child.send)

    commands.end(cast(Any, child))
    commands.end(cast(Any, child))

    assert child.sent == sent
