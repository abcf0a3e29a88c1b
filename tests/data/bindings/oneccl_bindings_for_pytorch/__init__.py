"""Stands where Intel's bindings stand, which are on no index that is always there: their names, and gloo beneath."""

from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

cwd = str(Path(__file__).resolve().parent)


def create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.ProcessGroupGloo:
    """Give the process group of the backend ccl."""
    return dist.ProcessGroupGloo(store, rank, size, timeout)


dist.Backend.register_backend("ccl", create, devices=["cpu"])
