"""Which gradients are sent as bfloat16: what the user has chosen, or what all ranks know of the pass that made them.

Ranks ask each other in every pass, because one may compute in another type than before, and do not wait for the answer:
they send what the last one allows, and keep what they had until the new one has come. Where a gradient was sent as
bfloat16 and should not have been, it is sent again as it was.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
import torch.distributed as dist

from multinode_image.exchange.origins import Origins


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
            self.now = frozenset(each for each, flag in zip(self.parameters, self.flags.tolist()) if flag)
        return self.now
