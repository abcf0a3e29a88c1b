"""Gradients as matrices of a low rank (PowerSGD, Vogels et al. 2019): what the rank takes goes into the next step.

torch's own issues its second sum from a callback, in another order on each rank, of which gloo dies.
"""

from collections.abc import Sequence
from typing import Any

import torch

from entrypoint.programs.exchange.codecs import Flight, Ranks

SEED = 11  # of the first guess, which all ranks make alike


class Memory:
    """What the matrices of a bucket need from step to step: float32 for each number, and the right factors."""

    def __init__(self, shapes: Sequence[tuple[int, int]], rank: int) -> None:
        """Reserve it; shapes: those of all gradients as matrices, the narrow ones of which are sent as they are."""
        random = torch.Generator().manual_seed(SEED)
        paying = [min(rank, *shape) * sum(shape) * 2 < shape[0] * shape[1] for shape in shapes]
        self.kept = [torch.zeros(shape) if pays else None for shape, pays in zip(shapes, paying)]
        self.right = [torch.randn(width, min(rank, height, width), generator=random) for height, width in shapes]


def average_low_rank(gradients: Sequence[Any], ranks: Ranks, memory: Memory) -> Flight:
    """Exchange gradients: left factors with all that is sent as it is, then right factors."""
    pairs = list(zip(gradients, memory.kept))
    whole = [gradient.reshape(-1) for gradient, kept in pairs if kept is None]
    matrices = [(kept.add_(gradient.view(kept.shape)), gradient) for gradient, kept in pairs if kept is not None]
    rights = [right for right, kept in zip(memory.right, memory.kept) if kept is not None]
    flat, views = join([*whole, *(matrix @ right for (matrix, _), right in zip(matrices, rights))])
    work = ranks.sum(flat.div_(ranks.size))
    yield
    work.wait()
    for gradient, view in zip((each for each, kept in pairs if kept is None), views):
        gradient.copy_(view.view_as(gradient))
    lefts = [torch.linalg.qr(view)[0] for view in views[len(whole) :]]
    flat, views = join([matrix.T @ left for (matrix, _), left in zip(matrices, lefts)])
    work = ranks.sum(flat.div_(ranks.size))
    yield
    work.wait()
    for (matrix, gradient), left, right, view in zip(matrices, lefts, rights, views):
        right.copy_(view)
        gradient.copy_((left @ right.T).view_as(gradient))
        matrix.sub_(gradient.view(matrix.shape))
        if not matrix.isfinite().all():
            matrix.zero_()
            right.nan_to_num_(1.0, 1.0, 1.0)


def join(tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return a flat copy of tensors, and views of it in their shapes."""
    flat = torch.cat([each.reshape(-1) for each in tensors]) if tensors else torch.zeros(1)
    parts = flat.split([each.numel() for each in tensors]) if tensors else ()
    return flat, [part.view(each.shape) for part, each in zip(parts, tensors)]
