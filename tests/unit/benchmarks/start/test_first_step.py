"""The way to the first step of a training: what is started, when it counts as done, and that it goes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.host.scratch import Scratch
from benchmarks.start import first_step
from images.host.errors import WorldFault

SCRATCH = Scratch(Path("/work"), "bench-1", 0.0)
DONE = "multinode: alone\nsmoke: first step done 3.2 s after the start\nsmoke: passed\n"


class Child:
    """Stand for a started client of Docker."""

    def __init__(self, said: str) -> None:
        self.stdout, self.stderr, self.ended = io.StringIO(), io.StringIO(said), False


class Engine:
    """Start a child that says something, and keep what was typed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
        self.child, self.typed = Child(said), list[Sequence[str]]()
        monkeypatch.setattr(first_step, "begin", self.begin)
        monkeypatch.setattr(first_step, "end", lambda child: setattr(child, "ended", True))
        monkeypatch.setattr(first_step, "call", lambda command, seconds: self.typed.append(command))

    def begin(self, command: Sequence[str]) -> Any:
        self.typed.append(command)
        return self.child


@pytest.mark.parametrize(
    ("entrypoint", "words"),
    [
        ("", ["image:1", "smoke", "--bf16"]),
        ("python3", ["--entrypoint", "python3", "image:1", "/opt/multinode/smoke.py", "--bf16"]),
    ],
)
def test_a_step_is_timed_and_its_container_goes(
    monkeypatch: pytest.MonkeyPatch, entrypoint: str, words: list[str]
) -> None:
    engine = Engine(monkeypatch, DONE)

    assert 0 <= first_step.seconds(SCRATCH, "image:1", entrypoint) < 10

    started, removed = engine.typed
    assert started[-len(words) :] == words
    assert removed == ["docker", "rm", "--force", "--volumes", started[3]]
    assert engine.child.ended and engine.child.stderr.closed


def test_a_training_that_ends_before_its_first_step_is_told_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(monkeypatch, "x" * 999 + "no memory\n")

    with pytest.raises(WorldFault, match="a training did not start") as caught:
        first_step.seconds(SCRATCH, "image:1", "")

    assert caught.value.value.rstrip("\\n").endswith("no memory")
    assert engine.typed[-1][:3] == ["docker", "rm", "--force"]
