"""End a rank well whose script returns without destroying its process groups, as part of Python's own exit.

Two things go wrong there, on machines with busy cores, after good work:

`dist.all_reduce` returns before the thread of the backend that did the work has dropped it. To drop a tensor that
Python knows, this thread needs Python's lock, and an interpreter that ends never gives it back: the thread dies of it
("terminate called without an active exception", exit code -6), or the main thread waits for ever for the thread. So
the main thread sleeps here, which sets the lock free, until the other threads have come to rest.

The group of oneCCL's rank 0 serves the keys by which ranks find each other, and its destructor waits until all others
have left. A rank that waits in a collective for rank 0 never leaves, so a rank 0 that failed would never end, and no
launcher would learn of it. So a group of oneCCL is kept, and ends with the process.

No other rank is waited for, and the exit code stays the program's own. Before all this, what ended a program by an
error is said in words (faults/words.py): the last row of a log is what people read first.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Tuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

THREADS = "/proc/self/task"
PAUSE = 0.005
# Even a starved thread gets a core now and then; after this, in seconds, the program ends as it would have anyway.
LIMIT = 2.0
# A thread that spins (a worker of oneCCL) never rests. Dropping a tensor takes far less than two ticks of a core.
TICKS = 2
DISTRIBUTED = "torch.distributed.distributed_c10d"
# Oneccl_bind_pt has had two names (1.12).
BINDINGS = ("oneccl_bindings_for_pytorch", "torch_ccl")


# What proc(5) says of a thread: the letter of its state, and how long it has run, in ticks.
Thread = Tuple[str, int]


def settle(
    look: Callable[[], Mapping[str, Thread]], sleep: Callable[[float], None], clock: Callable[[], float]
) -> None:
    """Sleep until no other thread has work left that it had at the beginning, for LIMIT seconds at most."""
    until = clock() + LIMIT
    first = before = look()
    while before and clock() < until:
        sleep(PAUSE)
        now = look()
        if all(is_done(first[name], before[name], now[name]) for name in first.keys() & before.keys() & now.keys()):
            return
        before = now


def is_done(first: Thread, before: Thread, now: Thread) -> bool:
    """Return whether a thread slept through a pause, so that it did not wait for Python's lock, or has run enough."""
    (_, ran_first), (state_before, _), (state, ran) = first, before, now
    return state_before == state == "S" or ran - ran_first >= TICKS


def look_around(place: str = THREADS) -> dict[str, Thread]:
    """Return the other threads of this process by their number; none where there is no /proc."""
    try:
        names = [name for name in os.listdir(place) if name != str(os.getpid())]
    except OSError:
        return {}
    found = {}
    for name in names:
        try:
            with open(f"{place}/{name}/stat", encoding="utf-8", errors="replace") as file:
                found[name] = read_thread(file.read())
        except (OSError, ValueError, IndexError):  # it has ended
            continue
    return found


def read_thread(stat: str) -> Thread:
    """Return a thread from a line of proc(5), stat; its name, in parentheses, may have spaces and parentheses."""
    words = stat.rpartition(")")[2].split()
    return words[0], int(words[11]) + int(words[12])


def groups_of_oneccl(modules: Mapping[str, Any]) -> list[Any]:
    """Return the process groups of oneCCL that there are; none if the program has not imported its bindings.

    Newer releases of torch have the table of groups, group -> (backend, store), in an object (distributed_c10d.py).
    """
    if not any(name in modules for name in BINDINGS):
        return []
    distributed = modules[DISTRIBUTED]
    table = getattr(getattr(distributed, "_world", None), "pg_map", None) or getattr(distributed, "_pg_map", {})
    return [group for group, (backend, *_) in table.items() if str(backend) != "gloo"]


def keep(kept: Any) -> None:
    """Let an object outlive the interpreter, so that its destructor never runs."""
    import ctypes  # most ranks need none of it

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def say(error: BaseException | None, root: str) -> None:
    """Print why this process ends, if an error ends it that we know; root: the directory of the package."""
    if error is None or isinstance(error, KeyboardInterrupt):  # whoever typed ^C knows why
        return
    sys.path.insert(0, root)
    from entrypoint.faults.disks import find_disk, find_full, list_mounts
    from entrypoint.faults.words import Place, explain
    from entrypoint.machine.files import read_text
    from entrypoint.printing.streams import print_error

    place = Place(os.environ, read_text, find_disk, lambda: find_full(list_mounts(read_text)))
    reason = explain(error, place)
    if reason is not None:
        print_error(reason)


def interrupt_again(error: BaseException | None) -> None:
    """Let Python end by SIGINT where ^C ended the program: it does so only if the last text that it ran ended by ^C.

    What runs at exit may run others (torch's dump_compile_times in _dynamo/utils.py imports tabulate, which makes named
    tuples), and the exit code would be 1 (run_eval_code_obj and Py_RunMain in CPython's pythonrun.c and main.c). At a
    prompt, where there is a sys.ps1, ^C ended only a line.
    """
    if type(error) is KeyboardInterrupt and not hasattr(sys, "ps1"):
        with contextlib.suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


def main(modules: Mapping[str, Any], error: BaseException | None, root: str) -> None:
    """Say what ended the program, wait for other threads, keep the groups of oneCCL and ^C."""
    with contextlib.suppress(Exception):  # the program's own error is what counts
        say(error, root)
    settle(look_around, time.sleep, time.monotonic)
    for group in groups_of_oneccl(modules):
        keep(group)
    interrupt_again(error)


if __name__ == "multinode.at_end":  # as the image's .pth file runs it
    main(sys.modules, getattr(sys, "last_value", None), str(Path(__file__).parents[2]))
