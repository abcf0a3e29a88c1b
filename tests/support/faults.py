"""What a test breaks in a cluster, what a user sees then and how soon: docs/clusters.md has these rows as a table."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.support.harness import Done

# What is written in a message for a part that differs from run to run.
ANYTHING = "..."


@dataclass(frozen=True)
class Fault:
    """A row of the table.

    what: happens; said: the messages, word for word, in which `...` is anything within a line; codes: the exit code of
    each process that ends, by a name for it, or under an empty one that of all of them; within: seconds from the fault
    until all of them have ended; remedy: how to go on.
    """

    what: str
    said: tuple[str, ...]
    codes: Mapping[str, int]
    within: int
    remedy: str


def fault(
    what: str, *said: str, codes: int | Mapping[str, int], within: int, remedy: str
) -> pytest.MarkDecorator:  # fmt: skip
    """Mark a test as the one that breaks this; it takes the fixture `broken`, which holds it to the row."""
    ends = {"": codes} if isinstance(codes, int) else codes
    return pytest.mark.fault(Fault(what, said, ends, within, remedy))


def read_fault(test: object) -> Fault | None:
    """Return the row of a test function, if it has one."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "fault"]
    return marks[0].args[0] if marks else None


def like(message: str) -> str:
    """Return a message as a pattern."""
    return ".*".join(re.escape(part) for part in message.split(ANYTHING))


class Broken:
    """A fault in a test: its deadline, and the check of what came of it."""

    def __init__(self, row: Fault) -> None:
        self.row, self.checked = row, False

    @contextmanager
    def happens(self) -> Iterator[None]:
        """Enclose what breaks something and awaits what follows; at the deadline it fails, whatever it waits for."""
        began = time.monotonic()
        before = signal.signal(signal.SIGALRM, self.fail)
        signal.setitimer(signal.ITIMER_REAL, self.row.within)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            print(f"[{self.row.what}: {time.monotonic() - began:.1f} s of {self.row.within} s]")

    def fail(self, *_: object) -> None:
        """Fail the test, for its deadline has come."""
        pytest.fail(f"{self.row.what}: no end after {self.row.within} s")

    def ended(self, *ends: Done) -> None:
        """Check the ends, in the order of the row's codes, and that each message is in what they said."""
        codes = list(self.row.codes.values())
        assert [each.code for each in ends] == (codes * len(ends) if "" in self.row.codes else codes)
        text = "\n".join(each.text for each in ends)
        assert [message for message in self.row.said if not re.search(like(message), text)] == []
        self.checked = True
