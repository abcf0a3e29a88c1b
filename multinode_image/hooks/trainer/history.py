"""The history of a training, which rank 0 keeps beside its results for `report` (report/trainings.py).

A row of the file is an object of JSON: a start of the training, a moment of it, or what the Trainer has logged. Rows
are written at each checkpoint and at the end, and also between where our directory is there: else a script that refuses
a directory with anything in it, as those of transformers before 5.0, could not be started again after an early crash.
Moments are as far apart as a part of the time since the start: 1,400 of them are a day.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import stat
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from transformers.trainer_callback import TrainerCallback

from multinode_image.hooks.step.gradients import SEEN
from multinode_image.machine.files import SAFELY
from multinode_image.results.record import STATE_DIRECTORY

FILE = "history.jsonl"
# Seconds between two moments, also as a part of the time that has gone, and between two writes.
LEAST, PART, PAUSE = 0.25, 1 / 200, 1.0


def quietly(act: Callable[..., None]) -> Callable[..., None]:
    """Let nothing that goes wrong end a training."""

    @functools.wraps(act)
    def act_quietly(*words: Any, **options: Any) -> None:
        with contextlib.suppress(Exception):
            act(*words, **options)

    return act_quietly


class History(TrainerCallback):
    """Keep what happens in a training, on rank 0."""

    def __init__(self) -> None:
        """Keep nothing before a training begins: an evaluation alone has no history."""
        self.place = ""
        self.rows: list[Mapping[str, object]] = []
        self.is_new = False
        self.began = self.due = self.written = 0.0

    @quietly
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        """Begin with what this training is."""
        self.place = f"{args.output_dir}/{STATE_DIRECTORY}" if state.is_world_process_zero and args.output_dir else ""
        self.is_new = not state.global_step
        self.began = self.due = self.written = time.monotonic()
        self.rows = [describe(args, state, model)]

    @quietly
    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Keep a moment if one is due."""
        now = time.monotonic()
        if self.place and now >= self.due:
            self.due = now + max(LEAST, (now - self.began) * PART)
            self._keep(take_moment(state))

    @quietly
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        """Keep what the Trainer logs; also that of an evaluation after the training."""
        if self.place:
            self._keep({"step": state.global_step, "time": time.time(), "logged": choose_numbers(logs or {})})

    @quietly
    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Write what there is: the directory has a checkpoint now."""
        self._write()

    @quietly
    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Keep the last moment, with the most memory that this process has had, in bytes."""
        if self.place:
            self.rows.append({**take_moment(state), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10})
            self._write()
            self.written = 0.0  # what comes now is written at once

    def _keep(self, row: Mapping[str, object]) -> None:
        self.rows.append(row)
        if time.monotonic() - self.written >= PAUSE and os.path.isdir(self.place):
            self._write()
            self.written = self.written and time.monotonic()

    def _write(self) -> None:
        if self.place and self.rows:
            write(self.place, self.rows, anew=self.is_new)
            self.rows, self.is_new = [], False


def describe(args: Any, state: Any, model: Any) -> dict[str, object]:
    """Return the row of a start: what is trained, by how many, and with which versions."""
    versions = {name: getattr(sys.modules.get(name), "__version__", "") for name in ("torch", "transformers")}
    weights = sum(each.numel() for each in model.parameters()) if hasattr(model, "parameters") else 0
    return {
        "began": time.time(),
        "step": state.global_step,
        "script": os.path.basename(sys.argv[0] if sys.argv else ""),
        "model": str(getattr(getattr(model, "config", None), "_name_or_path", "") or type(model).__name__),
        "weights": weights,
        "ranks": args.world_size,
        "batch": args.train_batch_size * args.gradient_accumulation_steps * args.world_size,
        "bf16": bool(args.bf16) and not uses_float32(),
        "gradients": os.environ.get("MULTINODE_GRADIENTS", ""),
        "threads": os.environ.get("OMP_NUM_THREADS", ""),
        "steps": state.max_steps,
        **versions,
    }


def uses_float32() -> bool:
    """Return whether this process computes in float32 though bf16 was asked for (bf16_units.py)."""
    from multinode_image.hooks.compute.bf16_units import must_use_float32

    return must_use_float32()


def take_moment(state: Any) -> dict[str, object]:
    """Return the row of a moment: its step, the time, and the seconds waited for gradients until then."""
    return {"step": state.global_step, "time": time.time(), "waited": SEEN.waited}


def choose_numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    """Return what is a number of what is logged; it may be one of numpy's or a tensor."""
    found = {}
    for name, value in logs.items():
        with contextlib.suppress(Exception):
            found[str(name)] = float(value)
    return found


def write(place: str, rows: list[Mapping[str, object]], *, anew: bool) -> None:
    """Add rows to the file in our directory, which is made where it is missing, or begin the file anew with them.

    Other users may write to the volume: no link is followed, and the group may go on with the file.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(place)
        os.chmod(place, 0o775)
    if not stat.S_ISDIR(os.lstat(place).st_mode):
        return
    opened = os.open(f"{place}/{FILE}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | SAFELY, 0o664)
    with open(opened, "w", encoding="utf-8") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            return
        if found.st_uid == os.getuid():
            os.fchmod(opened, 0o664)
        if anew:
            os.ftruncate(opened, 0)
        cut = "\n" if "began" in rows[0] else ""  # a row that was cut off by a crash ends here
        file.write("".join([cut, *(f"{json.dumps(row)}\n" for row in rows)]))


def keep_history(module: Any) -> None:
    """Let each Trainer keep its history, in a script of the user as well; module: transformers.trainer."""
    if History not in module.DEFAULT_CALLBACKS:
        module.DEFAULT_CALLBACKS.append(History)
