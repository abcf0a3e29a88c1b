"""The Trainer's progress in a log: its line tells of all ranks.

The line has the loss as it was last logged, the examples that all ranks have trained on in a second, and which part of
the time this rank has waited for others: all since the line before, at the end since the beginning.
Where that is much, one line of a training says what would help.
The callback takes the place of the Trainer's own as that of a notebook does (transformers/trainer.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from transformers.trainer_callback import ProgressCallback

from multinode_image.hooks.step.gradients import SEEN

# The part of the time above which waiting is much, and the steps before it is known: the first ones are slow.
MUCH, KNOWN = 0.2, 20
# What helps those that send all as it is, and everybody, and by how much it has: docs/benchmarks.md, "On paper" and
# "Settings". A hook of the script's own stays, whatever is chosen.
WHOLE = ("float32", "off")
LESS = "MULTINODE_GRADIENTS=bf16 (measured where 53% was waiting: 6.71 s a step became 4.43 s), or by "
LARGER = "a larger batch or gradient accumulation (measured: 30% for 8 x 128 words, 8% for 12 x 384)"


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
        self.advised = False
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
            self.last = self._say(args, state, self.last, KNOWN)
        super().on_step_end(args, state, control, **more)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Let the last line tell of the whole training."""
        if self._is_shown():
            self._say(args, state, self.first, 0)
        super().on_train_end(args, state, control, **more)

    def _is_shown(self) -> bool:
        return self.training_bar is not None and not self.training_bar.disable

    def _say(self, args: Any, state: Any, since: Point, least: int) -> Point:
        now = self._now(state)
        more = []
        if not self.advised and now.step - self.first.step >= least:
            more = advise(self.first, now, SEEN.sent)
            self.advised = bool(more)
        samples = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        said = ", ".join([describe(since, now, samples, state.log_history), *more])
        self.training_bar.set_postfix_str(said, refresh=False)
        return now

    def _now(self, state: Any) -> Point:
        return Point(state.global_step, time.monotonic(), SEEN.waited)


def advise(first: Point, now: Point, sent: str) -> list[str]:
    """Return what would help, if more than MUCH of the time since the first step has been waited."""
    waited = (now.waited or 0) - (first.waited or 0)
    if waited <= MUCH * (now.time - first.time):
        return []
    return [f"less waiting by {LESS if sent in WHOLE else ''}{LARGER}"]


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
    """Let the Trainer show the progress of all ranks in a log; module: transformers.trainer.

    At a terminal a bar is drawn again at each step, and in a notebook it is a table.
    """
    if module.DEFAULT_PROGRESS_CALLBACK is ProgressCallback and not os.isatty(2):
        module.DEFAULT_PROGRESS_CALLBACK = Progress
