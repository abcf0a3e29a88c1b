"""Which gradients come from computing in bfloat16, as autograd's graph says before each backward pass.

A gradient does where every path on which it comes from the loss has a tensor in bfloat16: no more of it is known than
that type holds. A layer that computes in float32, a part without gradients, another type: the graph has them as they
were, whatever autocast was around them. It is walked from the loss down to the first tensors in bfloat16, which are
near where a whole model computes so.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch

# What DDP puts between a model and its outputs: each goes through it as it is.
SINK = "_DDPSinkBackward"


class Origins:
    """What is known of the backward passes of this process.

    passes: how many there were; unknown: the last of them of which nothing is known, and so everything may have come
    from float32; kept: parameters with gradients from float32, by their ids, until these have been exchanged; within:
    whether a pass is going on.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.passes = self.unknown = 0
        self.kept: dict[int, weakref.ref[Any]] = {}
        self.within = False

    def begin(self, tensors: Any, in_bf16: bool, entered: Iterable[Any]) -> None:
        """Look at a pass before it; in_bf16: whether this process has computed so; entered: as in find_kept."""
        self.passes, self.within = self.passes + 1, True
        kept = None
        if in_bf16:
            try:
                kept = find_kept([tensors] if torch.is_tensor(tensors) else list(tensors), is_uniform(entered))
            except Exception:  # of what torch may pass in a later release: no training ends for that
                kept = None
        if kept is None:
            self.unknown = self.passes
        else:
            self.kept.update((id(parameter), weakref.ref(parameter)) for parameter in kept)

    def end(self) -> None:
        """Remember that a pass is over."""
        self.within = False

    def is_kept(self, identity: int) -> bool:
        """Return whether a parameter has a gradient from float32; one that is gone has left its id to another."""
        return identity in self.kept and self.kept[identity]() is not None

    def forget(self, identities: Iterable[int]) -> None:
        """Forget what is known of parameters."""
        for identity in identities:
            self.kept.pop(identity, None)


def is_uniform(entered: Iterable[Any]) -> bool:
    """Return whether what has been computed since the last pass is all in bfloat16, as far as autocast says.

    entered: the types of autocast that were entered since, None where it was turned off.
    """
    types = set(entered)
    return types == {torch.bfloat16} or (not types and read_autocast() is torch.bfloat16)


def find_kept(tensors: Iterable[Any], uniform: bool) -> list[Any] | None:
    """Return the parameters that a path leads to without bfloat16; None where that cannot be told.

    uniform: what counts of a node whose inside is not in the graph, such as one that was compiled.
    """
    kept: list[Any] = []
    done: set[tuple[Any, int]] = set()
    left = [(tensor.grad_fn, tensor.output_nr) for tensor in tensors]
    while left:
        edge = node, place = left.pop()
        if node is None or edge in done or read_type(node, place) is torch.bfloat16:
            continue
        done.add(edge)
        if node.name() == SINK:
            left.append(node.next_functions[place])
        elif is_opaque(node):
            if not uniform:
                return None
        else:
            if (parameter := getattr(node, "variable", None)) is not None:
                kept.append(parameter)
            left.extend(node.next_functions)
    return kept


def read_type(node: Any, place: int) -> Any:
    """Return the type of a gradient that a node takes, None where torch does not tell: older releases."""
    known = getattr(node, "_input_metadata", ())
    return known[place].dtype if place < len(known) else None


def is_opaque(node: Any) -> bool:
    """Return whether the inside of a node is not in the graph: a function of Python, or compiled, or an older torch."""
    return isinstance(node, torch.autograd.function.BackwardCFunction) or not hasattr(node, "_input_metadata")


def read_autocast() -> torch.dtype | None:
    """Return what autocast computes in right now, None where it is off; before 2.4 by functions of each device."""
    try:
        return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    except TypeError:
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
