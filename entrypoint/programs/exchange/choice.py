"""What was chosen for a DistributedDataParallel, alike on all ranks, and its hook."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any

import torch
import torch.distributed as dist

from entrypoint.errors import Refusal
from entrypoint.printing.streams import print_error, print_note
from entrypoint.programs.exchange.hook import Exchange
from entrypoint.programs.exchange.waiting import count_waiting
from entrypoint.tuning.gradients import OFF, OWN, VARIABLE, read_choice

# What was chosen for each model that still has no hook.
CHOSEN: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
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
    return [bytes(each.tolist()).decode(errors="replace").strip() for each in theirs]


def name_values(values: list[str]) -> str:
    """Return the first rank of each value, with it."""
    ranks = {value: rank for rank, value in reversed(list(enumerate(values)))}
    return ", ".join(f"{VARIABLE}={value or '(not set)'} on rank {rank}" for value, rank in reversed(ranks.items()))


def attach(parallel: Any, seen: Any) -> None:
    """Register the hook, unless the script has one, or wants none; seen: as in gradients.py."""
    choice = CHOSEN.pop(parallel, None)
    if choice is None or getattr(parallel, "_use_python_reducer", False):
        return
    own = getattr(parallel, "_comm_hooks", [])
    try:
        if not own and choice != OFF:  # past the method that lists it, and would be saved with the model
            dist._register_comm_hook(parallel.reducer, None, Exchange(parallel, choice, seen))
            return
    except RuntimeError:  # the reducer has one that is listed nowhere
        pass
    seen.sent = OFF if choice == OFF and not own else OWN
    count_waiting(parallel, seen)
    if choice != OFF and dist.get_rank(parallel.process_group) == 0:
        name = getattr(own[0][0], "__qualname__", "") if own else "torch's"
        print_note(f"gradients are exchanged by the hook that the script has registered, {name}")
