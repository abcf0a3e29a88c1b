"""How long a backward pass waits for gradients that are exchanged by others: DDP itself, or a hook of the script.

DDP waits for them in a callback that it leaves with autograd's engine, which calls those when all has been computed, in
their order. One of ours that stands before it starts the clock, and leaves one that stops it behind all others.
"""

from __future__ import annotations

import time
from typing import Any

import torch


def count_waiting(parallel: Any, seen: Any) -> None:
    """Count from now on; seen: as in gradients.py. Torch before 2.0 does not tell one pass from another."""
    number = getattr(torch._C, "_current_graph_task_id", None)
    if number is None:
        return
    engine, passes = torch.autograd.Variable._execution_engine, [-1]

    def prepare(_: object) -> None:
        if passes[-1] != number():
            passes[-1] = number()
            engine.queue_callback(start)

    def start() -> None:
        began = time.perf_counter()
        engine.queue_callback(lambda: stop(began))

    def stop(began: float) -> None:
        seen.waited = (seen.waited or 0.0) + time.perf_counter() - began

    for each in parallel.parameters():
        if each.requires_grad:
            each.register_hook(prepare)
