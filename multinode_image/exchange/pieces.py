"""What a bucket of DistributedDataParallel is made of, as far as it can be told for certain."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

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
