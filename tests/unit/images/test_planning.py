"""What the commands that only plan print, and where."""

from __future__ import annotations

import datetime
import io
import json

import pytest
from rich.console import Console

from images import options
from images.host.context import World
from images.host.errors import UserFault
from images.planning import HANDLERS

WORLD = World({}, datetime.date(2026, 11, 20), lambda: 0.0)


def told(command: str, *words: str) -> str:
    """Run a command; return what it wrote to its console."""
    out = io.StringIO()
    HANDLERS[command](options.parse(command, words), WORLD, Console(file=out, width=200))
    return out.getvalue()


def test_a_plan_says_what_would_be_built(capsys: pytest.CaptureFixture[str]) -> None:
    text = told("plan", "--torch", "2.13.0", "--transformers", "5.23.0")

    assert "2.13.0" in text and "5.23.0" in text
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", ["plan", "list"])
def test_json_is_one_object_on_stdout_and_nothing_else(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(command, "--json") == ""
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_a_day_that_has_not_come_by_the_clock_of_the_world_is_refused() -> None:
    with pytest.raises(UserFault, match="a day that has not come"):
        told("plan", "--as-of", "2026-11-22")
