"""Workers of a DataLoader: end one that loses a batch, for the training would wait for it for ever.

A thread of the worker puts batches into a queue, and thereby into shared memory, where the collators of the Trainer
have not put them yet. Where that fails, Python prints a traceback, drops the batch and goes on
(multiprocessing/queues.py, _feed).

A signal to the group of a rank, as tini and torchrun send it, is for the rank alone: without its workers it could not
finish the step after which it saves (last_checkpoint.py).
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WORKER = "torch.utils.data._utils.worker"


def end_worker(error: BaseException, modules: Mapping[str, Any], kill: Callable[[int, int], None]) -> None:
    """End this process if it is a worker of a DataLoader, by a signal that torch knows: SIGBUS is a full /dev/shm."""
    if getattr(modules.get(WORKER), "_worker_info", None) is not None:
        kill(os.getpid(), signal.SIGBUS if "No space left on device" in str(error) else signal.SIGKILL)


def watch_queues(queues: Any) -> None:
    """Let the queues of multiprocessing end a worker that loses a batch, after the traceback."""
    tell = queues.Queue._on_queue_feeder_error

    def tell_and_end(error: BaseException, batch: object) -> None:
        tell(error, batch)
        end_worker(error, sys.modules, os.kill)

    queues.Queue._on_queue_feeder_error = staticmethod(tell_and_end)


def stay_apart(module: Any) -> None:
    """Take each worker out of the process group that signals reach; module: torch.utils.data._utils.worker."""
    run = module._worker_loop

    @functools.wraps(run)
    def run_apart(*words: Any, **options: Any) -> Any:
        os.setpgrp()
        return run(*words, **options)

    module._worker_loop = run_apart
