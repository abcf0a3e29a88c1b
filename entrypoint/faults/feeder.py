"""End a worker of a DataLoader that finds no room in shared memory for a batch: the training waits for it for ever.

A thread of the worker puts a batch into the queue, and thereby into shared memory, where the collators of the Trainer
have not put it yet. Where that fails, Python prints a traceback, drops the batch and goes on
(multiprocessing/queues.py, _feed). So the worker ends by the signal of a process that writes to a full /dev/shm, which
torch knows (torch/utils/data/_utils/signal_handling.py), and `words` too.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WORKER = "torch.utils.data._utils.worker"
# What torch says when it makes a file in /dev/shm (aten/src/ATen/MapAllocator.cpp).
NO_ROOM = r"unable to (?:write to|allocate shared memory|mmap).*/torch_.*No space left on device"


def is_lost(error: BaseException, modules: Mapping[str, Any]) -> bool:
    """Return whether this is a worker of a DataLoader, and the error that of a batch without room."""
    worker = getattr(modules.get(WORKER), "_worker_info", None)
    return worker is not None and re.search(NO_ROOM, str(error)) is not None


def arm(kind: Any, end: Callable[[int, int], object]) -> None:
    """Let the queues of a class like that of multiprocessing end a worker after the traceback; end: as os.kill."""
    tell = kind._on_queue_feeder_error

    def tell_and_end(error: BaseException, batch: object) -> None:
        tell(error, batch)
        if is_lost(error, sys.modules):
            end(os.getpid(), signal.SIGBUS)

    kind._on_queue_feeder_error = staticmethod(tell_and_end)


def change(queues: Any) -> None:
    """Arm the queues of multiprocessing, whose module has just been imported."""
    arm(queues.Queue, os.kill)
