"""Which gradients come from computing in bfloat16, as autograd's graph says before each backward pass.

A gradient does where every path on which it comes from the loss has a tensor in bfloat16: no more of it is known than
that type holds. A layer that computes in float32, a part without gradients, another type: the graph has them as they
were, whatever autocast was around them. It is walked from the loss down to the first tensors in bfloat16, which are
near where a whole model computes so.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

# Others, such as complex numbers, which DDP keeps as twice as many real ones, go as DDP would send them.
UNDERSTOOD = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Piece(NamedTuple):
    """A gradient in a bucket: where it begins in the buffer, and its parameter."""

    start: int
    gradient: Any
    parameter: Any

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.start + int(self.gradient.numel())


def list_pieces(bucket: Any) -> list[Piece] | None:
    """Return the gradients of a bucket in their order, without those of no numbers; None if they are not all of it."""
    buffer, pieces, end = bucket.buffer(), [], 0
    gradients, parameters = bucket.gradients(), bucket.parameters()
    if buffer.is_sparse or buffer.dtype not in UNDERSTOOD or len(gradients) != len(parameters):
        return None
    for gradient, parameter in zip(gradients, parameters):
        if not lies_at(gradient, buffer, end) or (gradient.shape, gradient.dtype) != (parameter.shape, parameter.dtype):
            return None
        if gradient.numel():
            pieces.append(Piece(end, gradient, parameter))
            end = pieces[-1].end
    return pieces if end == buffer.numel() else None


def lies_at(gradient: Any, buffer: Any, start: int) -> bool:
    """Return whether a gradient is the part of a buffer that begins there; one of no numbers lies nowhere."""
    place = buffer.data_ptr() + start * buffer.element_size()
    return bool(gradient.numel() == 0 or gradient.data_ptr() == place)


# Which gradients come from computing in bfloat16, as autograd's graph says before each backward pass.
#
# A gradient does where every path on which it comes from the loss has a tensor in bfloat16: no more of it is known than
# that type holds. A layer that computes in float32, a part without gradients, another type: the graph has them as they
# were, whatever autocast was around them. It is walked from the loss down to the first tensors in bfloat16, which are
# near where a whole model computes so.

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


# Which gradients are sent as bfloat16: what the user has chosen, or what all ranks know of the pass that made them.
#
# Ranks ask each other in every pass, because one may compute in another type than before, and do not wait for the
# answer: they send what the last one allows, and keep what they had until the new one has come. Where a gradient was
# sent as bfloat16 and should not have been, it is sent again as it was.


class Fixed:
    """What was chosen, for all gradients."""

    def __init__(self, in_bf16: bool) -> None:
        """Take whether they are sent as bfloat16."""
        self.in_bf16 = in_bf16

    def ask(self, group: Any, *, joined: bool) -> None:
        """Ask nobody."""

    def expects(self, parameters: Collection[int]) -> bool:
        """Return whether the gradients of parameters, which have these ids, are sent as bfloat16."""
        return self.in_bf16

    def holds(self, parameters: Collection[int]) -> bool:
        """Return whether they may be sent so in this pass."""
        return self.in_bf16

    def conclude(self) -> bool:
        """End a pass; return whether any gradient may be sent as bfloat16 from now on."""
        return self.in_bf16


class Agreement(Fixed):
    """What the ranks have agreed on in the last pass, and what they are asked in this one."""

    def __init__(self, parameters: Collection[int], origins: Origins) -> None:
        """Begin with nothing in bfloat16; parameters: the ids of all, in one order on all ranks."""
        self.parameters, self.origins = list(parameters), origins
        self.last: frozenset[int] = frozenset()
        self.now: frozenset[int] | None = None
        self.since = origins.passes - origins.within
        self.flags: Any = None
        self.work: Any = None

    def ask(self, group: Any, *, joined: bool) -> None:
        """Ask all ranks of which parameters they have gradients from bfloat16.

        joined: this rank has no batches any more, and so no gradients that could be from anything else.
        """
        origins, self.now = self.origins, None
        if origins.within and origins.unknown <= self.since:
            mine = [not origins.is_kept(identity) for identity in self.parameters]
        else:
            mine = [joined and not origins.within] * len(self.parameters)
        self.flags = torch.tensor(mine, dtype=torch.uint8)
        self.work = dist.all_reduce(self.flags, op=dist.ReduceOp.MIN, group=group, async_op=True)

    def expects(self, parameters: Collection[int]) -> bool:
        """Return whether gradients are sent as bfloat16, as all ranks have agreed in the last pass."""
        return self.last.issuperset(parameters)

    def holds(self, parameters: Collection[int]) -> bool:
        """Return whether they may be, as all ranks have said in this pass; wait for them."""
        return self.wait().issuperset(parameters)

    def conclude(self) -> bool:
        """End a pass: what is known of it counts for the next one, and its gradients are exchanged."""
        self.last = self.wait()
        self.since = self.origins.passes
        self.origins.forget(self.parameters)
        return bool(self.last)

    def wait(self) -> frozenset[int]:
        """Return the ids of the parameters that all ranks have gradients of from bfloat16."""
        if self.now is None:
            self.work.wait()
            self.now = frozenset(parameter for parameter, flag in zip(self.parameters, self.flags.tolist()) if flag)
        return self.now
