"""The speed of a training, and how long rank 0 has waited for others, in what the Trainer logs itself.

So TensorBoard, wandb, the printed rows and trainer_state.json have them. The Trainer keeps a row before it calls what
is registered, and hands the same numbers to all of it, to the default callbacks first (transformers/trainer.py, log).
"""

from __future__ import annotations

import time
from typing import Any

from transformers.trainer_callback import TrainerCallback

from multinode_image.hooks.step.gradients import SEEN
from multinode_image.results.states import SPEED, WAITING


class Speed(TrainerCallback):
    """What is measured between two rows of a training."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Begin to measure."""
        self.last = state.global_step, time.monotonic(), SEEN.waited

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        """Add what was measured to a row with a loss of the training."""
        if not isinstance(logs, dict) or "loss" not in logs:
            return
        (step, then, waited), now = self.last, time.monotonic()
        if state.global_step <= step or now <= then:
            return
        samples = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        measured = {SPEED: round((state.global_step - step) * samples / (now - then), 2)}
        if SEEN.waited is not None:
            measured[WAITING] = round(100 * (SEEN.waited - (waited or 0)) / (now - then), 1)
        logs.update(measured)
        if state.log_history and state.log_history[-1].get("step") == state.global_step:
            state.log_history[-1].update(measured)
        self.last = state.global_step, now, SEEN.waited


def watch_speed(module: Any) -> None:
    """Let every Trainer log the speed of all ranks, and how long rank 0 has waited; module: transformers.trainer."""
    module.DEFAULT_CALLBACKS.insert(0, Speed)
