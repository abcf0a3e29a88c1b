"""The Trainer's progress in a log: its line tells of all ranks.

The line has the loss as it was last logged, the examples that all ranks have trained on in a second, and which part of
the time this rank has waited for the gradients of others: all since the line before, at the end since the beginning.
The callback takes the place of the Trainer's own as that of a notebook does (transformers/trainer.py).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from transformers.trainer_callback import ProgressCallback

EXCHANGE = "multinode.gradients"  # which counts how long a backward pass waits


class Point(NamedTuple):
    """A moment of a training: its step, the time, and the seconds waited until then; None where nobody counts them."""

    step: int
    time: float
    waited: float | None


class Progress(ProgressCallback):
    """The Trainer's progress, with more in the line; where tqdm is disabled, as it is."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Let the bar begin at the step of the checkpoint: the time left would be far too short after it."""
        super().on_train_begin(args, state, control, **more)
        self.first = self.last = self._now(state)
        if not self._is_shown():
            return
        bar = self.training_bar
        self.current_step = bar.n = bar.initial = bar.last_print_n = state.global_step
        # tqdm guesses by how many steps its next line is away, and where it guessed too many repeats the last one.
        bar.miniters, bar.dynamic_miniters = 1, False
        bar.write = print  # its own prints the bar again, as if it had been in the way

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Add what there is to say if a line is due."""
        bar = self.training_bar
        if self._is_shown() and time.time() - bar.last_print_t >= bar.mininterval:
            self.last = self._say(args, state, self.last)
        super().on_step_end(args, state, control, **more)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Let the last line tell of the whole training."""
        if self._is_shown():
            self._say(args, state, self.first)
        super().on_train_end(args, state, control, **more)

    def _is_shown(self) -> bool:
        return self.training_bar is not None and not self.training_bar.disable

    def _say(self, args: Any, state: Any, since: Point) -> Point:
        now = self._now(state)
        samples = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        self.training_bar.set_postfix_str(describe(since, now, samples, state.log_history), refresh=False)
        return now

    def _now(self, state: Any) -> Point:
        seen = getattr(sys.modules.get(EXCHANGE), "SEEN", None)
        return Point(state.global_step, time.monotonic(), getattr(seen, "waited", None))


def describe(since: Point, now: Point, samples: int, history: Iterable[Mapping[str, Any]]) -> str:
    """Return what is added to a line; samples: of a step, on all ranks; history: what has been logged."""
    seconds = now.time - since.time
    losses = [row["loss"] for row in history if "loss" in row]
    parts = [f"loss {losses[-1]:.4g}"] if losses else []
    parts.append(f"{(now.step - since.step) * samples / seconds:.1f} samples/s")
    if now.waited is not None:
        parts.append(f"waiting {(now.waited - (since.waited or 0)) / seconds:.0%}")
    return ", ".join(parts)


def show_progress(module: Any) -> None:
    """Let the Trainer show this progress in a log, in a script of the user as well; module: transformers.trainer.

    At a terminal a bar is drawn again at each step, and in a notebook it is a table.
    """
    if module.DEFAULT_PROGRESS_CALLBACK is ProgressCallback and not os.isatty(2):
        module.DEFAULT_PROGRESS_CALLBACK = Progress
