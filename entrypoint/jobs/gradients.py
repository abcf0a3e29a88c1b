"""Send gradients to the other ranks as bfloat16, half as many bytes, where MULTINODE_GRADIENTS asks for it.

The Trainer has no option for it, and torch refuses its own hook for it on CPUs by the hook's name alone
(torch/nn/parallel/distributed.py, _check_comm_hook). So each DistributedDataParallel gets a hook when it is first used.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "MULTINODE_GRADIENTS"
BF16 = "bf16"


def average(group: Any, bucket: Any) -> Any:
    """Average a bucket of gradients over the ranks of a group in bfloat16; return a future of the whole bucket."""
    import torch
    import torch.distributed as dist

    whole = bucket.buffer()
    small = whole.to(torch.bfloat16).div_(dist.get_world_size(group))
    sent = dist.all_reduce(small, group=group, async_op=True).get_future()
    return sent.then(lambda future: whole.copy_(future.value()[0]))


average.__annotations__ = {}  # torch compares those of a hook with its own types, which are not imported here


def register(model: Any) -> None:
    """Let a model send its gradients so, unless its script has set a hook: torch takes only one."""
    try:
        model.register_comm_hook(model.process_group, average)
    except RuntimeError:
        return
    if os.environ.get("RANK", "0") == "0":
        print("multinode: gradients are sent as bfloat16", file=sys.stderr, flush=True)


def arm(kind: Any) -> None:
    """Let every model of a class like DistributedDataParallel get the hook when it is first used."""
    begin = kind.__init__

    def __init__(self: Any, *words: Any, **options: Any) -> None:
        begin(self, *words, **options)

        def use(model: Any, _: object) -> None:
            handle.remove()
            register(model)

        handle = self.register_forward_pre_hook(use)

    kind.__init__ = __init__


def change(distributed: Any, environ: Mapping[str, str] = os.environ) -> None:
    """Arm DistributedDataParallel, whose module has just been imported; the entrypoint has refused all other values."""
    if environ.get(VARIABLE) == BF16:
        arm(distributed.DistributedDataParallel)
