"""How the time of a function grows with the length of what it reads."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

Text = TypeVar("Text", str, bytes)

SIZES = (2_000, 8_000, 32_000)  # each four times the one before
WORTH = 0.02  # seconds of a processor, below which a measured time says nothing
MOST = 9  # four times as much in so many times the time: linear is 4, quadratic 16
# Below this, what part of the time is quadratic is so small that the next size would stay below MOST.
SURELY_LINEAR = 5


def assert_linear(read: Callable[[Text], object], make: Callable[[int], Text]) -> None:
    """Fail where reading takes more than about twice the time for twice the length; `make` makes texts by their length.

    What a function raises is an answer like any other.
    """
    _seconds(read, make(16))  # what is done once, such as compiling an expression
    before = 0.0
    for size in SIZES:
        spent = _seconds(read, make(size))
        if spent > WORTH and before and spent > MOST * before:  # by chance, maybe
            small, large = _median(read, make(size // 4)), _median(read, make(size))
            assert large < MOST * small, f"{make(16)!r}...: {size // 4} in {small:.4f} s, {size} in {large:.4f} s"
        if spent > WORTH and spent < SURELY_LINEAR * before:
            return
        before = spent


def repeat(unit: str, before: str = "", after: str = "") -> Callable[[int], str]:
    """Return what makes texts of about a length, of one part again and again."""
    return lambda size: f"{before}{unit * (size // len(unit))}{after}"


def _median(read: Callable[[Text], object], text: Text) -> float:
    return statistics.median(_seconds(read, text) for _ in range(5))


def _seconds(read: Callable[[Text], object], text: Text) -> float:
    gc.disable()  # its time grows with what other tests have left in memory
    start = time.process_time()
    try:
        read(text)
    except Exception:
        pass
    finally:
        gc.enable()
    return time.process_time() - start
