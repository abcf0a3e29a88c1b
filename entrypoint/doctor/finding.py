"""What a check of `doctor` finds."""

from __future__ import annotations

from typing import NamedTuple

OK, WARNING, WRONG = "ok", "warning", "wrong"


class Finding(NamedTuple):
    """A value, whether it is as it should be, and what to do if it is not."""

    value: str
    state: str = OK
    remedy: str = ""
