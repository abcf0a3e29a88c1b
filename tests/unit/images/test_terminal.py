"""^C while a program imports its modules, and afterwards."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from images import terminal

Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [(signal.default_int_handler, signal.SIG_DFL), (signal.SIG_IGN, signal.SIG_IGN)],
)
def test_an_interrupt_has_no_traceback_until_it_is_handled_and_stays_ignored_where_it_is(
    before: Handler, meanwhile: Handler
) -> None:
    kept = signal.signal(signal.SIGINT, before)
    try:
        terminal.end_at_interrupt()
        assert signal.getsignal(signal.SIGINT) == meanwhile
        terminal.raise_interrupts()
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, kept)


@pytest.mark.parametrize(
    ("columns", "width"), [(None, None), ("", None), ("0", 70), ("00", 70), ("-5", None), ("1", None), ("x", None)]
)
def test_no_columns_at_all_are_those_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str | None, width: int | None
) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((70, 20)))

    assert terminal.width({} if columns is None else {"COLUMNS": columns}) == width
