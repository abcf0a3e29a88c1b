"""Train a little with DistributedDataParallel, and let rank 1 end in a way and at a time: ends.py HOW WHEN.

HOW: an exception, `os._exit(3)`, SIGKILL, `sys.exit(0)`, `wait` for a signal on rank 1, `both` wait,
`once`: with 1 at the first start, `well`.
WHEN: before the group forms, in a step that the other rank is in, after the last collective.
The group is oneCCL's where that is.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from importlib import import_module, util
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

CCL = "oneccl_bindings_for_pytorch"
BACKEND = "ccl" if util.find_spec(CCL) and import_module(CCL) else "gloo"
HOW, WHEN = sys.argv[1:3]
RANK = int(os.environ["RANK"])


def reach(when: str) -> None:
    """End where it is time to."""
    if when != WHEN or HOW == "well" or (RANK != 1 and HOW != "both"):
        return
    print(f"rank {RANK} is there", flush=True)
    if HOW == "exception":
        Path("/nowhere/model-of-rank-0").read_bytes()
    elif HOW == "exit":
        os._exit(3)
    elif HOW == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif HOW == "leave":
        sys.exit(0)
    elif HOW == "once":
        sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
    time.sleep(600)


reach("before")
dist.init_process_group(BACKEND)
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    if step == 3:
        reach("in")
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
if RANK == 1 and WHEN == "after":
    time.sleep(1)  # the other one has ended
reach("after")
