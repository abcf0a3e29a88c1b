"""Hand on why a rank ends, in our words, to the agent of torchrun that has started it.

The agent prints a traceback of its own below what the rank has said, and people read the end of a log. A rank leaves
its reason in the file that torch has for that (torch/distributed/elastic/multiprocessing/errors), which torch's report
shows, too; hooks/ends/diagnose.py reads it in the agent.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE = "TORCHELASTIC_ERROR_FILE"
# Ours beside what torch writes there itself, which is the traceback of a function with its decorator `record`.
KEY = "multinode"


def leave_reason(parts: Sequence[str], environ: Mapping[str, str]) -> None:
    """Leave a fact, its value and what to type instead, for the agent; the first reason of a rank stays.

    What torch prints has the fact alone, for a value may have a password, which the agent hides.
    """
    path, now = environ.get(FILE), time.time()
    if not path:
        return
    said = f"multinode: {parts[0]}, as the last lines of this log say"
    report: dict[str, Any] = {"message": {"message": said, "extraInfo": {"timestamp": str(int(now))}}}
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        if os.path.exists(path):
            with open(path) as file:
                report = json.load(file)
        report["message"]["extraInfo"].setdefault(KEY, {"parts": [*parts], "time": now})
        with open(f"{path}.{os.getpid()}", "w") as file:
            json.dump(report, file)
        os.replace(file.name, path)  # whole: torch's agent ends with a traceback for one that is not


def read_reason(failure: Any) -> tuple[str, str, str] | None:
    """Return the three parts that a rank has left, None without them; failure: torch's ProcessFailure."""
    try:
        fact, value, remedy = failure.message["extraInfo"][KEY]["parts"]
    except (AttributeError, TypeError, KeyError, ValueError):
        return None
    return str(fact), str(value), str(remedy)


def read_time(failure: Any) -> float:
    """Return when a rank has left its reason, in seconds since the epoch; 0 without one."""
    try:
        return float(failure.message["extraInfo"][KEY]["time"])
    except (AttributeError, TypeError, KeyError, ValueError):
        return 0
