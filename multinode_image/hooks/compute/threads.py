"""Compare the threads that torch has with those that this rank was given, and name what has changed them.

Several variables decide besides OMP_NUM_THREADS, and a site may export them for other programs: with MKL_NUM_THREADS=1
torch has one thread, whatever else is set. A script may change the number, too. The user's own value wins; it is said.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import Any

from multinode_image.hooks.job.one_job import is_first

GIVEN = "OMP_NUM_THREADS"
OTHERS = (
    "MKL_NUM_THREADS", "MKL_DOMAIN_NUM_THREADS", "MKL_DYNAMIC", "KMP_DEVICE_THREAD_LIMIT", "KMP_ALL_THREADS",
    "KMP_TEAMS_THREAD_LIMIT", "OMP_THREAD_LIMIT", "OMP_DYNAMIC", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS",
)  # fmt: skip
# What was said: a script may change the number more than once.
SAID: list[str] = []


def compare(module: Any) -> None:
    """Say where torch has another number of threads than it was given, now and when it is changed; module: torch."""
    given = os.environ.get(GIVEN, "")
    if not given.isdecimal():
        return
    count, change = module.get_num_threads(), module.set_num_threads
    if count != int(given):
        causes = [f"{name}={os.environ[name]}" for name in OTHERS if os.environ.get(name)]
        cause = " ".join(causes) or "its OpenMP has fewer"
        say(f"torch has {count} thread(s) in each rank, not the {given} of {GIVEN}: {cause}")

    @functools.wraps(change)
    def set_num_threads(number: int) -> None:
        change(number)
        if number != int(given):
            say(f"torch.set_num_threads({number}) in this script: each rank has cores for {given} (--explain)")

    module.set_num_threads = set_num_threads


def say(text: str) -> None:
    """Print a line, once for the job."""
    if text not in SAID and is_first(os.environ):
        SAID.append(text)
        with contextlib.suppress(Exception):  # a stream may be closed
            print(f"multinode: {text}", file=sys.stderr, flush=True)
