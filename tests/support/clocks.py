"""A time for what waits: nobody has to."""

from __future__ import annotations

from types import SimpleNamespace


class Clock(SimpleNamespace):
    """A time that only a sleep moves, in the place of the module `time`."""

    now = 100.0

    def monotonic(self) -> float:
        """Return the seconds of this time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let them pass."""
        self.now += seconds
