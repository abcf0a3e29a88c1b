"""Send gradients to the other ranks as bfloat16, half as many bytes, where MULTINODE_GRADIENTS asks for it.

The Trainer has no option for it, and torch refuses its own hook for it on CPUs by the hook's name alone
(torch/nn/parallel/distributed.py, _check_comm_hook). So each DistributedDataParallel gets a hook when it is first used.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec

VARIABLE = "MULTINODE_GRADIENTS"
BF16 = "bf16"
MODULE = "torch.nn.parallel.distributed"


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


class Finder:
    """Find one module as Python does, and arm its class as soon as it has run; this is done once."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return how the module is loaded; None for every other."""
        if name != MODULE:
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec else None
        if loader is None:
            return spec
        run = loader.exec_module

        def run_and_arm(module: Any) -> None:
            run(module)
            arm(module.DistributedDataParallel)

        loader.exec_module = run_and_arm
        return spec


def start(environ: Mapping[str, str]) -> None:
    """Wait for torch, which most programs never import; the entrypoint has refused all other values."""
    if environ.get(VARIABLE) == BF16:
        sys.meta_path.insert(0, Finder())


if __name__ == "multinode.gradients":  # as the image's .pth file runs it
    start(os.environ)
