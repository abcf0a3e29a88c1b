"""Torch as far as exchange/ needs it: a rank among others, gradients without numbers, and buckets of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

PACKAGE = "multinode_image.exchange"
NAMES = ("codecs", "origins", "hook", "choice")
FLOAT, BF16, HALF, OTHER = "float32", "bfloat16", "float16", "complex64"


class Work:
    """A collective on its way."""

    def __init__(self) -> None:
        self.waited = 0

    def wait(self) -> None:
        self.waited += 1


class Flags(list[int]):
    """A tensor of small numbers."""

    def tolist(self) -> list[int]:
        return [*self]


class BackwardCFunction:
    """What a function of Python is in a graph."""


class Torch(ModuleType):
    """torch and torch.distributed as one, in a rank of `size` whose others have `others`."""

    float32, float64, float16, bfloat16, uint8 = FLOAT, "float64", HALF, BF16, None
    ReduceOp = SimpleNamespace(MIN=min)
    GradBucket: Any = SimpleNamespace(parameters=None)

    def __init__(self) -> None:
        super().__init__("torch")
        self.__path__: list[str] = []
        self.size, self.rank, self.others, self.registered = 2, 0, list[Flags](), list[Any]()
        self.autocast: Any = None
        self.distributed = self
        self.autograd = SimpleNamespace(function=SimpleNamespace(BackwardCFunction=BackwardCFunction))
        self.futures = SimpleNamespace(Future=Future)
        self._C = SimpleNamespace()

    def no_grad(self) -> Any:
        return lambda method: method

    def tensor(self, values: Sequence[int], dtype: object) -> Flags:
        return Flags(values)

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, SimpleNamespace)

    def empty_like(self, other: Flags) -> Flags:
        return Flags(other)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return ("zeros", shape, dtype)

    def get_world_size(self, group: Any = None) -> int:
        return self.size

    def get_rank(self, group: Any = None) -> int:
        return self.rank

    def all_reduce(self, flags: Flags, op: Any, group: Any, async_op: bool) -> Work:
        for other in self.others:
            flags[:] = [op(pair) for pair in zip(flags, other, strict=True)]
        return Work()

    def all_gather(self, received: list[Flags], mine: Flags, group: Any) -> None:
        for place, part in enumerate([*self.others[: self.rank], mine, *self.others[self.rank :]]):
            received[place][:] = part

    def is_autocast_enabled(self, device: str) -> bool:
        return self.autocast is not None

    def get_autocast_dtype(self, device: str) -> Any:
        return self.autocast

    def _register_comm_hook(self, reducer: Any, state: Any, hook: Any) -> None:
        if getattr(reducer, "taken", False):
            raise RuntimeError
        self.registered.append((reducer, state, hook))


class Future:
    """What a bucket becomes."""

    result: Any = None

    def set_result(self, result: Any) -> None:
        self.result = result


class Weight:
    """A parameter or its gradient, as many numbers of a type from an address on."""

    def __init__(self, count: int = 4, dtype: str = FLOAT, at: int = 0, dims: int = 2) -> None:
        self.count, self.dtype, self.at, self.dims, self.shape = count, dtype, at, dims, (count,)
        self.is_sparse, self.in_one_piece, self.requires_grad = False, True, True
        self.device, self.hooks = SimpleNamespace(type="cpu"), list[Any]()

    def numel(self) -> int:
        return self.count

    def element_size(self) -> int:
        return 4

    def data_ptr(self) -> int:
        return self.at

    def dim(self) -> int:
        return self.dims

    def is_contiguous(self) -> bool:
        return self.in_one_piece

    def flatten(self, first: int) -> tuple[str, Weight]:
        return ("rows", self)

    def register_hook(self, hook: Any) -> None:
        self.hooks.append(hook)

    def __getitem__(self, part: slice) -> Weight:
        return Weight(part.stop - part.start, self.dtype, self.at + 4 * part.start)


def bucket(*counts: int, number: int = 0, last: bool = False, **changes: Any) -> Any:
    """Return a bucket of gradients, and of parameters that are like them."""
    gradients, end = list[Weight](), 0
    for count in counts:
        gradients.append(Weight(count, at=4 * end))
        end += count
    parameters = [Weight(count) for count in counts]
    buffer = Weight(end)
    values = {"buffer": buffer, "gradients": gradients, "parameters": parameters, "index": number, "is_last": last}
    return SimpleNamespace(**{name: lambda value=value: value for name, value in {**values, **changes}.items()})


@contextmanager
def loaded(torch: Torch) -> Iterator[SimpleNamespace]:
    """Import the modules of exchange/ anew with this torch; yield them by their names."""
    with mock.patch.dict(sys.modules, {"torch": torch, "torch.distributed": torch}):
        for name in NAMES:
            sys.modules.pop(f"{PACKAGE}.{name}", None)
        yield SimpleNamespace(**{name: importlib.import_module(f"{PACKAGE}.{name}") for name in NAMES})
    for name in NAMES:
        sys.modules.pop(f"{PACKAGE}.{name}", None)
