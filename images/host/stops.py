"""Work that is not needed any more: how a thread is told, and ends."""

from __future__ import annotations

import threading
from contextvars import ContextVar

STOPS: ContextVar[tuple[threading.Event, ...]] = ContextVar("stops", default=())  # each ends the work of this thread


class Stopped(Exception):
    """The work of a thread is not needed any more: something beside it has failed, or was interrupted."""


def end_if_stopped() -> None:
    """Raise Stopped in a thread whose work is not needed any more."""
    if any(stop.is_set() for stop in STOPS.get()):
        raise Stopped
