"""What a test breaks in a cluster, held to its row of tests/data/faults.toml: what a user sees, and how soon."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.pages.tables import Fault, read_faults
from tests.support.harness import ROOT, Done

# What is written in a message for a part that differs from run to run.
ANYTHING = "..."


def find_fault(file: Path, test: str) -> Fault:
    """Return the row of a test, by its file and the name of its function."""
    name = f"{file.relative_to(ROOT / 'tests').as_posix()}::{test}"
    rows = [row for row in read_faults() if row.test == name]
    assert rows, f"tests/data/faults.toml has no row of {name}"
    return rows[0]


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
        assert [end.code for end in ends] == (codes * len(ends) if "" in self.row.codes else codes)
        text = "\n".join(end.text for end in ends)
        assert [message for message in self.row.said if not re.search(like(message), text)] == []
        self.checked = True
