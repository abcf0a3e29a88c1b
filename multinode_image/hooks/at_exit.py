"""What every Python of a training does at its exit (at_start.py), after all that the script has registered.

If it has imported torch.distributed:

- what ended it is said in words, below the traceback, and by torchrun's agent below its own: the last row of a log is
  what people read first;
- or rank 0 says what is proved of its job (proof.py), and a rank that has trained a model of its own ends with an
  error. Nothing is said where the script has called sys.exit with a failure, of which Python tells no handler;
- the main thread sleeps, which sets Python's lock free: a collective returns before the thread of the backend that did
  it has dropped its tensors, for which it needs the lock, and an interpreter that ends never gives it back. The thread
  dies of it ("terminate called without an active exception", -6), or the main thread waits for it for ever;
- a group of oneCCL is kept and ends with the process: the destructor of rank 0's waits until all others have left, and
  one that waits in a collective for a rank 0 that failed never leaves, so no launcher would learn of it.

No other rank is waited for, and the exit code stays the program's own.

Other modules are imported where they are needed: most Pythons of a training end without torch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

from multinode_image.settings import TRAINING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DISTRIBUTED = "torch.distributed.distributed_c10d"
# Oneccl_bind_pt has had two names (1.12).
BINDINGS = ("oneccl_bindings_for_pytorch", "torch_ccl")
# Files that are closed before anything is imported at the exit: a program may have as many open as it may.
RESERVED: list[int] = []
BEGAN, MUCH = time.monotonic(), 0.2  # the part of the time above which waiting is much
# What sys.exit was called with, the last of which may be what the program ends with.
STATUS: list[object] = []
REST = 0.2  # seconds in which a thread of a backend, also one that has to wait for a core, drops its last work


def reserve_files() -> None:
    """Open the files that are closed before the exit."""
    RESERVED.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(2))


def watch_status() -> None:
    """Remember what sys.exit is called with."""
    leave = sys.exit

    def leave_with(status: Any = None, /) -> NoReturn:
        STATUS.append(status)
        leave(status)

    sys.exit = leave_with


def say_error(error: BaseException, environ: Mapping[str, str]) -> None:
    """Print why this process ends, if that is known."""
    while RESERVED:
        os.close(RESERVED.pop())
    from multinode_image.hooks.ends.diagnose import Place, explain
    from multinode_image.machine.files import read_text
    from multinode_image.machine.limits import find_disk, find_full, find_refused
    from multinode_image.printing.streams import print_error

    waits = find_loaded(sys.modules, "groups.waits")
    others = waits.describe_others if waits else str
    refused = functools.partial(find_refused, error)
    reason = explain(error, Place(environ, read_text, find_disk, lambda: find_full(read_text), others, refused))
    if reason is not None:
        print_error(reason)
        hand_on([reason.fact, reason.value, reason.remedy], environ)


def hand_on(parts: Sequence[str], environ: Mapping[str, str]) -> None:
    """Let torchrun's agent say again why this rank ends, and not why a process has that the rank has started."""
    if environ.get(TRAINING) == str(os.getpid()):
        from multinode_image.hooks.job.reason import leave_reason

        leave_reason(parts, environ)


def describe_job(modules: Mapping[str, Any], environ: Mapping[str, str], pid: int) -> str:
    """Return what rank 0 of several knows of its job at its end; empty where it knows nothing for certain.

    torch remembers how a group was formed, also after it was destroyed; before 2.0 it does not, and what has seen a
    step in it does. A group by the variables of the ranks forms only when all ranks have come.
    """
    from multinode_image.hooks.job import one_job
    from multinode_image.hooks.model import one_model

    distributed = modules[DISTRIBUTED]
    if environ.get("RANK") != "0" or one_job.count_meant(environ) == 1:
        return ""
    by_variables = getattr(distributed, "_default_pg_init_method", "")
    formed = by_variables == "env://" or one_model.know().formed
    destroyed = formed and not distributed.is_initialized()
    meant, joined = one_job.count_meant(environ), one_job.count_joined(modules)
    if joined == 1 or (by_variables is None and not formed and not joined and environ.get(TRAINING) == str(pid)):
        if not joined and has_worked_by_children():
            return ""
        apart = f"each of the {meant} ranks has worked by itself, not as one job"
        return one_model.describe_rpc(meant) or apart
    size = meant if destroyed else joined
    text = one_model.describe_training(size) if size > 1 else ""
    return f"{text}{describe_waiting(modules)}" if text else ""


def has_worked_by_children() -> bool:
    """Return whether processes that this one has started, and seen end, may have done its work (mp.spawn)."""
    import resource  # most ranks need none of it

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > 1


def describe_waiting(modules: Mapping[str, Any]) -> str:
    """Return which part of the time backward passes have waited for others; empty where that is little."""
    waited = getattr(getattr(find_loaded(modules, "step.gradients"), "SEEN", None), "waited", None)
    share = (waited or 0) / (time.monotonic() - BEGAN)
    return f", waiting for gradients {share:.0%} of the time" if share > MUCH else ""


def keep_groups(modules: Mapping[str, Any]) -> None:
    """Let the process groups of oneCCL outlive the interpreter, so that their destructors never run.

    Newer releases of torch have the table of groups, group -> (backend, store), in an object (distributed_c10d.py).
    """
    if not any(name in modules for name in BINDINGS):
        return
    import ctypes  # most ranks need none of it

    distributed = modules[DISTRIBUTED]
    table = getattr(getattr(distributed, "_world", None), "pg_map", None) or getattr(distributed, "_pg_map", {})
    for group in [group for group, (backend, *_) in table.items() if str(backend) != "gloo"]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def find_loaded(modules: Mapping[str, Any], name: str) -> Any:
    """Return a module of this package, if the training has loaded it."""
    return modules.get(f"{__package__}.{name}")


def end(modules: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Do what has to be done at the exit."""
    with contextlib.suppress(Exception):  # it is in the log already
        for fault in getattr(find_loaded(modules, "job.one_job"), "TOLD", ()):
            hand_on(fault, environ)
    error = getattr(sys, "last_value", None)
    if error is None and not any(STATUS[-1:]) and (DISTRIBUTED in modules or find_loaded(modules, "model.one_model")):
        finish(modules, environ)
    if DISTRIBUTED not in modules:
        return
    with contextlib.suppress(Exception):  # the program's own error is what counts
        say(error, modules, environ)
        for text in getattr(find_loaded(modules, "ends.ending"), "LAST", ()):
            print(f"multinode: {text}", file=sys.stderr, flush=True)
    for watcher in (find_loaded(modules, "groups.waits"), find_loaded(modules, "model.one_model")):
        if watcher:
            watcher.stop()
    if modules[DISTRIBUTED].is_initialized():
        time.sleep(REST)
    keep_groups(modules)


def finish(modules: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """End a process that ends well, but has trained a model of its own, with an error."""
    from multinode_image.hooks.after_import import say_silent
    from multinode_image.hooks.job import one_job
    from multinode_image.hooks.model import one_model

    fault = None
    try:
        fault = one_model.finish(modules, environ)
    except Exception as error:  # it is not worth a training
        say_silent("one_model.finish", error)
    if fault is not None:
        print(fault, file=sys.stderr, flush=True)
        hand_on(fault, environ)
        os._exit(one_job.EXIT_USER)


def say(error: BaseException | None, modules: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Print why this process ends, or what it knows of its job."""
    if error is None:
        if not any(STATUS[-1:]):
            say_job(describe_job(modules, environ, os.getpid()), modules, environ)
    elif not isinstance(error, KeyboardInterrupt) or lacks_thread():  # whoever typed ^C knows why
        say_error(error, environ)


def say_job(text: str, modules: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Leave what this job was to what started its ranks, which knows how they end; or wait for them and print it.

    text: that of rank 0, empty on all others.
    """
    from multinode_image.hooks.ends import ending
    from multinode_image.hooks.job import one_job, word

    if text and word.leave_last_line(text, environ):
        return
    has_parent = environ.get(one_job.ELASTIC) or environ.get(word.WORD)
    several = one_job.count_meant(environ) > 1
    others = "" if has_parent or not several else ending.describe_others(modules[DISTRIBUTED])
    if text:
        print(f"multinode: {text}{others}", file=sys.stderr, flush=True)


def lacks_thread() -> bool:
    """Return whether no thread can be started: then OpenBLAS interrupts its process, as ^C does."""
    import _thread

    try:
        _thread.start_new_thread(int, ())
    except RuntimeError as error:
        return str(error) == "can't start new thread"  # and not that the interpreter ends
    return False
