"""Let all ranks draw one order of examples of like length, the same whenever an epoch begins.

The sampler of `group_by_length` draws its order from the global generator of each rank (LengthGroupedSampler in
transformers/trainer_pt_utils.py). Ranks use that generator for dropout, each for batches of other lengths, so from the
second epoch on they have different orders: some examples come twice, others never (35 of 48 on two ranks). A start that
goes on in the middle of an epoch draws another order than the one that it goes on from.
"""

from __future__ import annotations

import functools
from typing import Any

# Attributes of a sampler: the epoch that is drawn next, and the seed of its first one.
EPOCH, SEED = "_multinode_epoch", "_multinode_seed"


def draw_alike(module: Any) -> None:
    """Let a sampler draw from its seed and its epoch; module: transformers.trainer_pt_utils.

    The seed is that of torch, which a Trainer sets from its argument on all ranks. A generator of the script's own is
    left alone. Who knows the epoch says it (accelerate, set_epoch); else each order drawn is one epoch more.
    """
    kind, torch = module.LengthGroupedSampler, module.torch
    draw = kind.__iter__

    @functools.wraps(draw)
    def draw_from_seed(self: Any) -> Any:
        if getattr(self, "generator", None) is not None:
            return draw(self)
        epoch = getattr(self, EPOCH, 0)
        setattr(self, EPOCH, epoch + 1)
        if not hasattr(self, SEED):
            setattr(self, SEED, torch.initial_seed())
        self.generator = torch.Generator().manual_seed((getattr(self, SEED) + epoch) % 2**63)
        try:
            return iter(list(draw(self)))
        finally:
            self.generator = None

    def set_epoch(self: Any, epoch: int) -> None:
        setattr(self, EPOCH, epoch)

    kind.__iter__, kind.set_epoch = draw_from_seed, set_epoch


def tell_epoch(module: Any) -> None:
    """Let every sampler below a loader know its epoch; module: accelerate.data_loader.

    It looks for one two levels deep, and finds none where batches are shared by ranks and the first ones are skipped.
    """
    kind = module.DataLoaderShard
    tell = kind.set_epoch

    @functools.wraps(tell)
    def tell_all(self: Any, epoch: int) -> None:
        tell(self, epoch)
        level = getattr(self, "batch_sampler", None)
        while level is not None:
            tell_sampler = getattr(getattr(level, "sampler", None), "set_epoch", None)
            if tell_sampler is not None:
                tell_sampler(epoch)
            level = getattr(level, "batch_sampler", None)

    kind.set_epoch = tell_all
