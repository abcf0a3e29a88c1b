"""Compute the loss of a router over the batches of all ranks: it is no mean of those of each.

It balances the work of experts (load_balancing_loss_func of a model's module in transformers): how many tokens of the
batch an expert gets, times how likely it is. The product of means of all ranks is not the mean of products.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "load_balancing_loss_func"


def share_routers(model: Any) -> bool:
    """Let the routers of a model be balanced over all ranks; return whether it has any that are known."""
    names = {type(part).__module__ for part in model.modules()}
    modules = [module for module in map(sys.modules.get, names) if callable(getattr(module, NAME, None))]
    for module in modules:
        balance = getattr(module, NAME)
        if not hasattr(balance, "__wrapped__"):
            setattr(module, NAME, share(balance))
    return bool(modules)


def share(balance: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loss of routers over all ranks, each of which has the gradients of its own part, times ranks."""

    @functools.wraps(balance)
    def run(logits: Any, experts: Any = None, top: Any = 2, mask: Any = None, **more: Any) -> Any:
        distributed = sys.modules["torch.distributed"]
        ranks = distributed.get_world_size() if distributed.is_initialized() else 1
        if ranks == 1 or not torch.is_grad_enabled() or not isinstance(logits, tuple) or more:
            return balance(logits, experts, top, mask, **more)
        loss = balance(*collect(distributed, logits, experts, top, mask))
        return loss.detach() + ranks * (loss - loss.detach())  # DDP divides by them

    return run


def collect(distributed: Any, logits: Any, experts: Any, top: Any, mask: Any) -> tuple[Any, ...]:
    """Return what a loss of routers takes, of all ranks: shorter batches are filled up, and masked there.

    logits: of each layer, tokens x experts; mask: of tokens, None for all.
    """
    mine = torch.stack([layer.float() for layer in logits])
    tokens, ranks = mine.shape[1], distributed.get_world_size()
    longest = torch.tensor([tokens])
    distributed.all_reduce(longest, op=distributed.ReduceOp.MAX)
    filled = torch.nn.functional.pad(mine, (0, 0, 0, int(longest) - tokens))
    weights = mine.new_ones(tokens) if mask is None else mask.reshape(-1).to(mine.dtype)
    weights = torch.nn.functional.pad(weights, (0, int(longest) - tokens))
    all_filled = [torch.empty_like(filled) for _ in range(ranks)]
    all_weights = [torch.empty_like(weights) for _ in range(ranks)]
    distributed.all_gather(all_filled, filled.detach().contiguous())
    distributed.all_gather(all_weights, weights)
    all_filled[distributed.get_rank()] = filled  # the one with gradients
    return tuple(torch.cat(all_filled, 1)), experts, top, torch.cat(all_weights)[None]
