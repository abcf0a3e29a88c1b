"""The end of a program of ours that was one of several ranks."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

import torch.distributed as dist


def leave(code: int) -> NoReturn:
    """End all ranks together, without the destructors that hang or crash after good work.

    Destroying gloo's group right after a collective can deadlock under mpirun (torch 2.4) and oneCCL can abort, so
    nothing is destroyed at once: the ranks meet, give each other's last messages time to arrive, and end.
    """
    backend = "none"
    if dist.is_initialized():
        backend = str(dist.get_backend())
        dist.barrier()
        time.sleep(0.5)
    sys.stdout.flush()
    sys.stderr.flush()
    if backend in ("none", "gloo"):
        os._exit(code)
    dist.destroy_process_group()
    sys.exit(code)
