"""Gradients on their way to the other ranks: where they lie, and as what they are sent.

Those of DistributedDataParallel lie in the buckets that are sent, unless a script says otherwise. By default torch
copies them out of the buckets after each exchange: up to a tenth of a step on one core, and their bytes once more. The
numbers are the same. The Trainer has no option for it.

Where MULTINODE_GRADIENTS asks for it, they are sent as bfloat16, half as many bytes. The Trainer has no option for that
either, and torch refuses its own hook for it on CPUs by the hook's name alone (torch/nn/parallel/distributed.py,
_check_comm_hook). So each model gets a hook when it is first used.
"""

from __future__ import annotations

import inspect
import os
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "MULTINODE_GRADIENTS"
BF16 = "bf16"
VIEW = "gradient_as_bucket_view"
# Counts in the store of the ranks how many of them send their gradients as they are.
COUNT = "multinode-gradients"


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


def count_others(more: int) -> int:
    """Add to the number of models whose ranks send their gradients as they are, and return it; 0 without a store."""
    try:
        from torch.distributed import distributed_c10d

        return int(distributed_c10d._get_default_store().add(COUNT, more))
    except Exception:  # no group of the program's own may fail for this
        return 0


def check_ranks() -> None:
    """End this rank with exit code 2 if others send float32: gloo ends on sizes that differ with an abort."""
    if count_others(0):
        value, remedy = f"{VARIABLE}={BF16} on rank {os.environ.get('RANK', '0')}", f"export {VARIABLE}={BF16}"
        fact = "multinode: other ranks of this job do not send their gradients as bfloat16"
        print(f"{fact}: {value}\n  try: {remedy} on every node, or unset it on all", file=sys.stderr, flush=True)
        sys.exit(2)


def in_buckets(begin: Any, words: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a model, whose constructor is `begin`, with gradients in their buckets by default."""
    kinds = inspect.signature(begin).parameters
    if VIEW not in kinds or VIEW in options or len(words) >= list(kinds).index(VIEW):  # `self` is not among the words
        return dict(options)
    return {**options, VIEW: True}


def arm(kind: Any, *, sends: bool) -> None:
    """Let every model of a class like DistributedDataParallel get the hook when it is first used.

    sends: whether this rank has the hook. Ranks without it are counted before their model is made, for which each rank
    waits for all others.
    """
    begin = kind.__init__

    @wraps(begin)
    def __init__(self: Any, *words: Any, **options: Any) -> None:
        if not sends:
            count_others(1)
        begin(self, *words, **in_buckets(begin, words, options))
        if not sends:
            return
        check_ranks()

        def use(model: Any, _: object) -> None:
            handle.remove()
            register(model)

        handle = self.register_forward_pre_hook(use)

    kind.__init__ = __init__


def change(distributed: Any, environ: Mapping[str, str] = os.environ) -> None:
    """Arm DistributedDataParallel, whose module has just been imported; the entrypoint has refused all other values."""
    arm(distributed.DistributedDataParallel, sends=environ.get(VARIABLE) == BF16)
