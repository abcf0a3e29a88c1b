"""Weigh a loss that is the mean of its own batch, so that the ranks of a Trainer give the gradients of one process.

A Trainer gives a model that takes any keyword the number of labels in the batches of all ranks. It expects the sum of
the losses divided by that, and multiplies it by the number of ranks, by which DistributedDataParallel divides the
gradients (transformers/trainer.py, compute_loss; by default since 4.54). Many models take the number and return the
mean of their own batch all the same: those of BERT and T5, all for classification. Their loss and gradients would be
those of one process, multiplied by the ranks, of which clipping and SGD take notice. Such a mean is multiplied here by
its part of all labels. Without average_tokens_across_devices ranks with few labels would count as much as others.

The first batch tells. Where a model is compiled it runs as it is written for once, as compiled code would not meet our
number; torch before 2.6 cannot be told so, and a Trainer that compiles is left alone there.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from typing import Any

import torch

# What is done with a number that is only handed on.
HANDED_ON = ("__get__", "to")
# An attribute of a Trainer: whether its loss is divided by the number of labels, known from its first batch on.
DIVIDES = "_multinode_divides"


class Count(torch.Tensor):
    """The number of labels, which knows whether anybody has computed with it."""

    used = False

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do what is asked for; what is computed is an ordinary tensor, as without us."""
        if func.__name__ in HANDED_ON:
            return super().__torch_function__(func, types, args, kwargs or {})
        cls.used = True
        return func(*map(unwrap, args), **{name: unwrap(value) for name, value in (kwargs or {}).items()})


def unwrap(value: Any) -> Any:
    """Return a number of labels as an ordinary tensor, and anything else as it is."""
    return value.as_subclass(torch.Tensor) if isinstance(value, Count) else value


def can_run_eagerly() -> bool:
    """Return whether this torch can leave out all that is compiled for a while."""
    return hasattr(getattr(torch, "compiler", None), "set_stance")


def run_eagerly() -> contextlib.AbstractContextManager[object]:
    """Return a context in which nothing is compiled; torch's compiler, which takes seconds to import, is not."""
    if can_run_eagerly() and "torch._dynamo" in sys.modules:
        stance: contextlib.AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
        return stance
    return contextlib.nullcontext()


def has_labels(inputs: Any) -> bool:
    """Return whether a batch still has its labels: a script's own compute_loss may have given them another name."""
    return "labels" in inputs or "shift_labels" in inputs


def count_labels(trainer: Any, inputs: Any) -> torch.Tensor:
    """Return how many labels a batch has, as the Trainer counts them (_get_num_items_in_batch)."""
    labels = inputs["shift_labels"] if "shift_labels" in inputs else inputs["labels"]
    shifts = "shift_labels" not in inputs and getattr(trainer, "_loss_shifts_labels", False)
    return (labels[..., 1:] if shifts else labels).ne(-100).sum()


def weigh_losses(module: Any) -> None:
    """Change how the Trainer computes its loss; module: transformers.trainer, which before 4.46 counts no labels."""
    plain = module.Trainer.compute_loss
    if "num_items_in_batch" not in inspect.signature(plain).parameters:
        return

    @functools.wraps(plain)
    def compute_loss(
        self: Any, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        args, divides = self.args, getattr(self, DIVIDES, None)
        averages = args.world_size > 1 and getattr(args, "average_tokens_across_devices", False)  # 4.46.0 has none
        can_tell = not args.torch_compile or can_run_eagerly()
        multiplies = averages and can_tell and (self.model_accepts_loss_kwargs or self.compute_loss_func)
        if divides or not multiplies or not torch.is_tensor(num_items_in_batch) or not has_labels(inputs):
            return plain(self, model, inputs, return_outputs, num_items_in_batch)
        part = count_labels(self, inputs) / num_items_in_batch  # the labels leave the inputs, where they are smoothed
        Count.used = False
        given = num_items_in_batch.as_subclass(Count) if divides is None else num_items_in_batch
        with run_eagerly() if divides is None else contextlib.nullcontext():
            result = plain(self, model, inputs, return_outputs, given)
        if divides is None:
            setattr(self, DIVIDES, Count.used)
            say(self)
        if getattr(self, DIVIDES):
            return result
        return (result[0] * part, result[1]) if return_outputs else result * part

    module.Trainer.compute_loss = compute_loss


def say(trainer: Any) -> None:
    """Print what is done with the loss of a Trainer, once for the job."""
    if not getattr(trainer, DIVIDES) and os.environ.get("RANK") == "0":
        ranks, name = trainer.args.world_size, type(trainer.accelerator.unwrap_model(trainer.model)).__name__
        what = f"{name} returns the mean loss of its own batch, which the Trainer would multiply by {ranks} ranks"
        print(f"multinode: {what}; it counts by its labels here, as in one process", file=sys.stderr, flush=True)
