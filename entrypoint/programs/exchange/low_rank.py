"""Gradients as matrices of a low rank (PowerSGD, Vogels et al. 2019): what the rank takes goes into the next step.

torch's own issues its second sum from a callback, in another order on each rank, of which gloo dies. What a gradient is
made of has come by a collective, and it is made by sums and products of two numbers, which every processor rounds
alike: a product of matrices has other last bits on another one, and ranks would drift apart.
"""

from collections.abc import Generator, Sequence
from typing import Any

import torch

from entrypoint.programs.exchange.codecs import Flight, Ranks

SEED = 11  # of the first guess, which all ranks make alike
AT_ONCE = 1 << 18  # numbers of a product that are worked on at a time: a megabyte stays in a processor's cache


class Memory:
    """What the matrices of a bucket need from step to step: float32 for each number, and the right factors."""

    def __init__(self, shapes: Sequence[tuple[int, int]], rank: int) -> None:
        """Reserve it; shapes: those of all gradients as matrices, the narrow ones of which are sent as they are."""
        random = torch.Generator().manual_seed(SEED)
        # Two sums of left factors, of which one tells all ranks what each has made orthogonal, and one of right ones.
        paying = [min(rank, *shape) * (2 * shape[0] + shape[1]) * 2 < shape[0] * shape[1] for shape in shapes]
        self.kept = [torch.zeros(shape) if pays else None for shape, pays in zip(shapes, paying)]
        paid = [shape for shape, pays in zip(shapes, paying) if pays]
        self.rights = [torch.randn(width, min(rank, height, width), generator=random) for height, width in paid]


def average_low_rank(gradients: Sequence[Any], ranks: Ranks, memory: Memory) -> Flight:
    """Exchange gradients: left factors with all that is sent as it is, then right factors."""
    pairs = list(zip(gradients, memory.kept))
    whole = [gradient for gradient, kept in pairs if kept is None]
    matrices = [(kept.add_(gradient.reshape(kept.shape)), gradient) for gradient, kept in pairs if kept is not None]
    products = [matrix @ right for (matrix, _), right in zip(matrices, memory.rights)]
    views = yield from sum_all([*whole, *products], ranks)
    for gradient, view in zip(whole, views):
        gradient.copy_(view).div_(ranks.size)
    lefts = yield from sum_all(make_orthogonal(views[len(whole) :], ranks), ranks)
    views = yield from sum_all([matrix.T @ left for (matrix, _), left in zip(matrices, lefts)], ranks)
    for (matrix, gradient), left, right, view in zip(matrices, lefts, memory.rights, views):
        right.copy_(view).div_(ranks.size)
        gradient.copy_(multiply(left, right).view_as(gradient))
        matrix.sub_(gradient.reshape(matrix.shape))
        if not matrix.isfinite().all():
            matrix.zero_()
            right.nan_to_num_(1.0, 1.0, 1.0)


def sum_all(tensors: Sequence[Any], ranks: Ranks) -> Generator[None, None, list[Any]]:
    """Return the sums of the tensors of all ranks, by one collective."""
    if not tensors:
        return []
    flat = torch.cat([each.reshape(-1) for each in tensors])
    work = ranks.sum(flat)
    yield
    work.wait()
    return [part.view(each.shape) for part, each in zip(flat.split([each.numel() for each in tensors]), tensors)]


def make_orthogonal(matrices: Sequence[Any], ranks: Ranks) -> list[Any]:
    """Return matrices with orthogonal columns, or zero for those that another rank makes so."""
    mine = (number % ranks.size == ranks.rank for number in range(len(matrices)))
    return [torch.linalg.qr(each)[0] if own else torch.zeros_like(each) for own, each in zip(mine, matrices)]


def multiply(left: Any, right: Any) -> Any:
    """Return the product of a matrix and a transposed one, column by column."""
    product = torch.empty(len(left), len(right))
    rows, columns = max(1, AT_ONCE // len(right)), right.T.contiguous()
    for some, part in zip(left.split(rows), product.split(rows)):
        torch.mul(some[:, :1], columns[0], out=part)
        for number in range(1, len(columns)):
            part.add_(some[:, number : number + 1] * columns[number])
    return product
