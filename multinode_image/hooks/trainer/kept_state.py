"""The state of a Trainer as it has it between checkpoints, which rank 0 keeps for `report` (results/states.py).

It is written at each checkpoint and at the end, and also between where our directory is there, or somebody asks for
numbers (MULTINODE_METRICS): else a script that refuses a directory with anything in it, as those of transformers before
5.0, could not be started again after an early crash.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from transformers.trainer_callback import TrainerCallback

from multinode_image.hooks.compute.bf16_units import must_use_float32
from multinode_image.hooks.step.gradients import SEEN
from multinode_image.results.checkpoints import STATE
from multinode_image.results.record import STATE_DIRECTORY
from multinode_image.results.shared import make_shared
from multinode_image.results.states import STARTS, Start, read_starts, read_state
from multinode_image.settings import METRICS
from multinode_image.tuning.gradients import VARIABLE

# Seconds between two writes at least, and the part of the time that they take at most: a state grows with its log.
PAUSE, PART = 2.0, 1 / 200


def quietly(act: Callable[..., None]) -> Callable[..., None]:
    """Let nothing that goes wrong end a training."""

    @functools.wraps(act)
    def act_quietly(*words: Any, **options: Any) -> None:
        with contextlib.suppress(Exception):
            act(*words, **options)

    return act_quietly


class KeptState(TrainerCallback):
    """Keep the state of a training, on rank 0."""

    def __init__(self) -> None:
        """Keep nothing before a training begins: an evaluation alone has no state."""
        self.place, self.due = "", 0.0
        self.starts: list[Start] = []

    @quietly
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        """Begin with what this start is, behind those from whose checkpoint it goes on."""
        self.place = f"{args.output_dir}/{STATE_DIRECTORY}" if state.is_world_process_zero and args.output_dir else ""
        self.first: tuple[int, float, float] | None = None
        self.due = time.monotonic()
        former = read_starts(read_state(f"{self.place}/{STATE}")) if self.place and state.global_step else []
        self.starts = [*former, describe(args, state, model)]

    @quietly
    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Remember when a step was done; the first one is slow, and measured by nobody."""
        now = state.global_step, time.monotonic(), SEEN.waited or 0.0
        self.first = self.first or now
        steps, seconds, waited = (after - before for after, before in zip(now, self.first))
        waited = None if SEEN.waited is None else waited
        self.starts[-1].update(time=time.time(), steps=steps, seconds=seconds, waited=waited)

    @quietly
    def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Write what there is if that is due; also what an evaluation logs after the training."""
        if time.monotonic() >= self.due and (os.path.isdir(self.place) or os.environ.get(METRICS)):
            self._write(state)

    on_step_begin = on_log  # what was logged after the step before is there by then

    @quietly
    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Write what there is: the directory has a checkpoint now."""
        self._write(state)

    @quietly
    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Write what there is, and from now on whatever is logged at once."""
        self.on_step_end(args, state, control)
        self._write(state)
        self.due = 0.0

    def _write(self, state: Any) -> None:
        if not self.place:
            return
        began = time.monotonic()
        try:
            self.starts[-1]["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            text = json.dumps({**vars(state), STARTS: self.starts}, default=to_number, skipkeys=True)
            make_shared(self.place).write(STATE, text)
        finally:
            done = time.monotonic()
            self.due = self.due and done + max(PAUSE, (done - began) / PART)


def describe(args: Any, state: Any, model: Any) -> Start:
    """Return what a start says of itself: what is trained, by how many, and with which versions."""
    versions = {name: getattr(sys.modules.get(name), "__version__", "") for name in ("torch", "transformers")}
    weights = sum(parameter.numel() for parameter in model.parameters()) if hasattr(model, "parameters") else 0
    return {
        "began": time.time(),
        "step": state.global_step,
        "script": os.path.basename(sys.argv[0] if sys.argv else ""),
        "model": str(getattr(getattr(model, "config", None), "_name_or_path", "") or type(model).__name__),
        "weights": weights,
        "ranks": args.world_size,
        "batch": args.train_batch_size * args.gradient_accumulation_steps * args.world_size,
        "bf16": bool(args.bf16) and not must_use_float32(),
        "gradients": os.environ.get(VARIABLE, ""),
        "threads": os.environ.get("OMP_NUM_THREADS", ""),
        **versions,
    }


def to_number(value: Any) -> float | None:
    """Return the number of a value that JSON does not know, as numpy's or a tensor; None for what is none."""
    with contextlib.suppress(Exception):
        return float(value)
    return None


def keep_state(module: Any) -> None:
    """Let each Trainer keep its state, in a script of the user as well; module: transformers.trainer."""
    if KeptState not in module.DEFAULT_CALLBACKS:
        module.DEFAULT_CALLBACKS.append(KeptState)
