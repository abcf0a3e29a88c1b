"""Who has the directory for results: rank 0 takes it for its job once all ranks are there, so that all end together.

A task has a record there, which says whose checkpoints they are (results/record.py). Of a script the directory is taken
where a training has saved in it before, and else at its first checkpoint: some scripts refuse one that is not empty.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from multinode_image import timeouts
from multinode_image.errors import Refusal
from multinode_image.hooks.job.one_job import Fault, leave
from multinode_image.machine.files import read_text
from multinode_image.machine.limits import explain_error
from multinode_image.printing.streams import print_note
from multinode_image.results.record import RUN, STATE_DIRECTORY, Run, begin, read_run, take_lock
from multinode_image.results.shared import make_shared, open_shared
from multinode_image.settings import BEGAN

# What this process has taken, by its real path; the kernel frees it when the process ends.
TAKEN: set[str] = set()


def gather(mine: Any, size: int) -> list[Any]:
    """Return what all ranks have, in their order; size: how many they are."""
    distributed = sys.modules.get("torch.distributed")
    if size == 1 or distributed is None or not distributed.is_initialized():
        return [mine]
    values: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, mine)
    return values


def gather_began(environ: Mapping[str, str], size: int) -> list[str]:
    """Return when this job has begun on each of its nodes."""
    return sorted({*gather(environ.get(BEGAN, ""), size)})


def find_run(environ: Mapping[str, str], directory: str | None = None) -> Run | None:
    """Return the run of the task that this process trains, if its results go to a directory; None for a script."""
    run = read_run(environ.get(RUN, ""))
    if run is None or directory is None or os.path.realpath(directory) == os.path.realpath(run.directory):
        return run
    return None


def begin_together(run: Run, rank: int, size: int, began: Sequence[str]) -> None:
    """Let rank 0 take the directory of a task's run and leave a record there, or end all; began: as in `begin`."""
    if run.directory not in TAKEN:
        TAKEN.add(run.directory)
        take_together(lambda: begin(run, began, print_note), rank, size)


def hold(directory: str, *, only_ours: bool = False) -> None:
    """Take the directory of a script for this process; only_ours: where it has saved there before, and nowhere else.

    Raise Refusal where another job has it.
    """
    ours, path = f"{directory}/{STATE_DIRECTORY}", os.path.realpath(directory)
    shared = open_shared(ours) if only_ours else make_shared(ours)
    if path not in TAKEN and shared is not None:
        TAKEN.add(path)
        take_lock(shared, print_note)


def take_together(take: Callable[[], object], rank: int, size: int) -> None:
    """Take a directory on rank 0, and end all ranks where that is refused."""
    refusal = None
    if not rank:
        try:
            take()
        except Refusal as error:
            refusal = error
        except OSError as error:
            refusal = explain_error(error, read_text)
    refusal = gather(refusal, size)[0]
    if refusal is not None:
        end_all(Fault(refusal.fact, refusal.value, refusal.remedy), refusal.code, rank)


def end_all(fault: Fault, code: int, rank: int) -> NoReturn:
    """End this rank, as all others do; rank 0 says why."""
    if rank:
        time.sleep(timeouts.SAID)  # what starts ranks ends the others with the first
        sys.exit(code)
    leave(fault, code)


def watch_accelerator(module: Any) -> None:
    """Let a task without the Trainer take its directory where its ranks have met; module: accelerate.accelerator."""
    init = module.Accelerator.__init__

    @functools.wraps(init)
    def init_and_begin(self: Any, *words: Any, **options: Any) -> None:
        init(self, *words, **options)
        run = find_run(os.environ)
        if run is not None and not run.goes_on:
            began = gather_began(os.environ, self.num_processes)
            begin_together(run, self.process_index, self.num_processes, began)

    module.Accelerator.__init__ = init_and_begin
