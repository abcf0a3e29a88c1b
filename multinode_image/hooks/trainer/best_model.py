"""Let all ranks end with the best model, where a Trainer loads it at the end, also if each node has a disk of its own.

Rank 0 alone writes checkpoints: on another node's own disk the best one is not there, or an older one of that name is,
and that rank kept its last weights. It evaluates and predicts with them, and says at most that it could not locate it.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from transformers.trainer_callback import TrainerCallback

ELEMENTS = 1024  # of each tensor, by which weights are told apart


class BestModel(TrainerCallback):
    """What a Trainer asks when it has trained, and has loaded the best model where it could."""

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Send the weights of rank 0 to all, if any rank has others."""
        model = more.get("model")
        if not shares(args) or not isinstance(model, torch.nn.Module) or are_alike(digest(model)):
            return
        for tensor in list_tensors(model):
            send(tensor)
        if args.process_index == 0:
            text = "not all ranks found the best model (load_best_model_at_end); rank 0 has sent it to them"
            print(f"multinode: {text}", file=sys.stderr, flush=True)


def shares(args: Any) -> bool:
    """Return whether all ranks load one whole model at the end; the same on all ranks."""
    return bool(
        args.load_best_model_at_end
        and args.world_size > 1
        and not getattr(args, "fsdp", None)
        and not getattr(args, "deepspeed", None)
    )


def list_tensors(model: Any) -> Iterator[Any]:
    """Yield the weights of a model that each rank has whole."""
    for tensor in (*model.parameters(), *model.buffers()):
        if not hasattr(tensor, "_local_tensor") and tensor.numel():
            yield tensor.detach()


def read_bytes(tensor: Any) -> Any:
    """Return a tensor as bytes, of its own if it has them in one piece."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def digest(model: Any) -> int:
    """Return a number for the weights of a model: it differs where they do, but for single elements."""
    number = 0
    for tensor in list_tensors(model):
        number = zlib.crc32(read_bytes(tensor.reshape(-1)[:ELEMENTS]).numpy().tobytes(), number)
    return number


def are_alike(number: int) -> bool:
    """Return whether all ranks have the same number."""
    extremes = torch.tensor([number, -number])
    dist.all_reduce(extremes, dist.ReduceOp.MAX)
    return int(extremes[0]) == -int(extremes[1])


def send(tensor: Any) -> None:
    """Give a tensor of rank 0 to all."""
    whole = tensor.contiguous()
    dist.broadcast(read_bytes(whole), 0)
    if whole.data_ptr() != tensor.data_ptr():
        tensor.copy_(whole)


def watch_best(module: Any) -> None:
    """Let every Trainer end with the best model on all ranks; module: transformers.trainer."""
    module.DEFAULT_CALLBACKS.append(BestModel)
