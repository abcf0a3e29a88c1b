"""What was chosen for a DistributedDataParallel, alike on all ranks, and its hook."""

from __future__ import annotations

import importlib
import os
import sys
import weakref
from typing import Any

import torch
import torch.distributed as dist

from multinode_image.errors import Refusal
from multinode_image.exchange.hook import Exchange, count_waiting
from multinode_image.printing.streams import print_error, print_note
from multinode_image.tuning.gradients import OFF, SCRIPT_HOOK, VARIABLE, read_choice

# What was chosen for each model that still has no hook.
CHOSEN: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
# The hook of each reducer that has ours.
HOOKS: weakref.WeakKeyDictionary[Any, Exchange] = weakref.WeakKeyDictionary()
BUILT_IN = "torch's"
WIDTH = 32  # bytes of a value that are compared


def choose(parallel: Any) -> None:
    """Keep what was chosen for a model, or end this rank: for a value that is not known, or is another elsewhere."""
    if dist.get_world_size(parallel.process_group) == 1 or next(parallel.parameters()).device.type != "cpu":
        return
    values = compare(os.environ.get(VARIABLE, "").strip(), parallel.process_group)
    try:
        if len(set(values)) > 1:
            remedy = f"the same {VARIABLE} for all ranks, or for none"
            raise Refusal("ranks would exchange gradients in different ways", name_values(values), remedy)
        choice = read_choice(os.environ)
    except Refusal as refusal:
        print_error(refusal)
        sys.exit(refusal.code)
    if hasattr(parallel, "reducer"):
        # Torch before 1.11 does not tell a hook which parameters a bucket has.
        CHOSEN[parallel] = choice if hasattr(dist.GradBucket, "parameters") else OFF


def compare(text: str, group: Any) -> list[str]:
    """Return a value as all ranks of a group have it, in their order."""
    mine = torch.tensor(list(text.encode()[:WIDTH].ljust(WIDTH)), dtype=torch.uint8)
    theirs = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(theirs, mine, group=group)
    return [bytes(row.tolist()).decode(errors="replace").strip() for row in theirs]


def name_values(values: list[str]) -> str:
    """Return the first rank of each value, with it."""
    ranks = {value: rank for rank, value in reversed(list(enumerate(values)))}
    return ", ".join(f"{VARIABLE}={value or '(not set)'} on rank {rank}" for value, rank in reversed(ranks.items()))


def attach(parallel: Any, seen: Any) -> None:
    """Register the hook, unless the script has one, or wants none; seen: as in gradients.py."""
    choice = CHOSEN.pop(parallel, None)
    if choice is None or getattr(parallel, "_use_python_reducer", False):
        return
    hooks = getattr(parallel, "_comm_hooks", [])
    try:
        if not hooks and choice != OFF:  # past the method that lists it, and would be saved with the model
            exchange = Exchange(parallel, choice, seen)
            dist._register_comm_hook(parallel.reducer, None, exchange)
            HOOKS[parallel.reducer] = exchange
            return
    except RuntimeError:  # the reducer has one that is listed nowhere
        pass
    if choice == OFF and not hooks:
        seen.sent = OFF
        count_waiting(parallel, seen)
    else:
        leave(parallel, seen, name_hook(hooks[0][0]) if hooks else BUILT_IN, choice)


def attach_to_join(parallel: Any, seen: Any, by_all: bool) -> None:
    """Register the hook where ranks may run out of batches: one that never has any runs no forward pass.

    by_all: gradients are divided by all ranks; by those that still have batches DDP does it itself.
    """
    if not by_all and parallel in CHOSEN:
        CHOSEN[parallel] = OFF
    attach(parallel, seen)


def give_way(reducer: Any, seen: Any, *words: Any) -> bool:
    """Let a hook that the script registers take the place of ours; return whether it has.

    words: what torch is asked to register: a state and a hook, or the name of one that is built in.
    """
    exchange = HOOKS.get(reducer)
    if exchange is None or exchange.successor is not None:
        return False
    hook = find_built_in(words[0]) if len(words) == 1 else words[-1]
    state = exchange.parallel.process_group if len(words) == 1 else words[0]
    if hook is None:
        return False
    exchange.successor = lambda bucket: hook(state, bucket)
    leave(exchange.parallel, seen, BUILT_IN if len(words) == 1 else name_hook(hook), exchange.choice)
    return True


def find_built_in(name: Any) -> Any:
    """Return what does the same as a hook that is built in, None where torch has no such function."""
    hooks = importlib.import_module("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
    return getattr(hooks, f"{getattr(name, 'name', '').lower()}_hook", None)


def leave(parallel: Any, seen: Any, name: str, choice: str) -> None:
    """Leave a model to a hook of the script, and count how long that waits; name: of the hook."""
    seen.sent = SCRIPT_HOOK
    count_waiting(parallel, seen)
    if choice != OFF and dist.get_rank(parallel.process_group) == 0:
        print_note(f"gradients are exchanged by the hook that the script has registered, {name}")


def name_hook(hook: Any) -> str:
    """Return what the script calls a hook."""
    return str(getattr(hook, "__qualname__", type(hook).__qualname__))
