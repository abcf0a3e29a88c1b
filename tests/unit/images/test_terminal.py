"""^C while a program imports its modules, and afterwards."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from images import startup

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
        startup.end_at_interrupt()
        assert signal.getsignal(signal.SIGINT) == meanwhile
        startup.raise_interrupts()
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, kept)
