"""How what the entrypoint adds to a command is counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.figures.measured import Figures
from benchmarks.host.scratch import Scratch
from benchmarks.start import entrypoint

SCRATCH = Scratch(Path("/work"), "bench-1", 0.0)
INSIDE = {"bypassed": [0.001, 0.002], "python": [0.01, 0.01], "ours": [0.031, 0.035], "ours processor": [0.02, 0.02]}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Have an engine whose container measured this, and list the commands that it got."""
    commands: list[list[str]] = []

    def call(command: Sequence[str]) -> str:
        commands.append([*command])
        return json.dumps(INSIDE) if entrypoint.LOOP in command else ""

    monkeypatch.setattr(entrypoint, "call", call)
    return commands


def test_what_the_entrypoint_adds_is_the_difference_of_neighbours(called: list[list[str]]) -> None:
    figures = Figures()

    entrypoint.measure(SCRATCH, figures, "image:1", 2)

    assert figures.values["added"] == pytest.approx([0.030, 0.033])
    assert figures.values["ours processor"] == [0.02, 0.02]


def test_the_first_container_of_each_kind_is_not_counted(called: list[list[str]]) -> None:
    figures = Figures()

    entrypoint.measure(SCRATCH, figures, "image:1", 2)

    started = [words[-3:] for words in called[1:]]
    assert started == [["--entrypoint", "true", "image:1"], ["none", "image:1", "true"]] * 3
    assert {name: len(figures.values[f"container {name}"]) for name in ("bypassed", "ours")} == {
        "bypassed": 2, "ours": 2,
    }  # fmt: skip
