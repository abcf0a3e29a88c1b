"""Torch as far as losses need it, batches of labels with their costs, and losses of several kinds."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

NAMES = ("multinode_image.hooks.step.mean_loss", "multinode_image.hooks.step.router_loss")


class Tensor:
    """Numbers in lists, as far as losses need them."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def dim(self) -> int:
        return 1 + Tensor(self.values[0]).dim() if isinstance(self.values, list) and self.values else 0

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __float__(self) -> float:
        return float(self.values)

    def __int__(self) -> int:
        return int(self.values)

    def __getitem__(self, index: Any) -> Tensor:
        if isinstance(index, list):
            return Tensor([self.values[place] for place in index])
        return Tensor([row[index[1]] for row in self.values])  # [..., 1:]

    def ne(self, value: int) -> Tensor:
        return Tensor([[number != value for number in row] for row in self.values])

    def sum(self, axis: int | None = None) -> Tensor:
        if axis is None:
            return Tensor(sum(sum(row) for row in self.values))
        if axis == 1:
            return Tensor([Tensor(part).sum(0).values for part in self.values])
        return Tensor([sum(column) for column in zip(*self.values, strict=True)])

    def tolist(self) -> Any:
        return self.values


class Torch(ModuleType):
    """torch, with gradients where nobody has turned them off."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.has_grad, self.long = True, int
        self.tensor, self.is_tensor = Tensor, lambda value: isinstance(value, Tensor)
        self.zeros = lambda *sizes, dtype: Tensor([[0] * sizes[1]])
        self.is_grad_enabled = lambda: self.has_grad
        self.random = SimpleNamespace(fork_rng=lambda devices: contextlib.nullcontext())

    @contextlib.contextmanager
    def no_grad(self) -> Iterator[None]:
        self.has_grad = False
        yield
        self.has_grad = True


@contextlib.contextmanager
def loaded(torch: Torch) -> Iterator[Any]:
    """Import mean_loss.py anew with this torch."""
    with mock.patch.dict(sys.modules, {"torch": torch}):
        for name in NAMES:
            sys.modules.pop(name, None)
        yield importlib.import_module(NAMES[0])
    for name in NAMES:
        sys.modules.pop(name, None)


class Example(NamedTuple):
    """Labels, -100 where there is none, and what each of them costs."""

    labels: tuple[int, ...]
    costs: tuple[float, ...]


def batch(*examples: Example) -> dict[str, Any]:
    return {
        "labels": Tensor([[*one.labels] for one in examples]),
        "costs": [one.costs for one in examples],
        "is_train": True,
    }


def cost(inputs: Any) -> list[tuple[float, int]]:
    """Return the sum of the costs of each example, and the number of its labels."""
    rows = []
    for labels, costs in zip(inputs["labels"], inputs["costs"], strict=True):
        seen = [value for label, value in zip(labels, costs, strict=True) if label != -100]
        rows.append((sum(seen), len(seen)))
    return rows


def add(inputs: Any, number: Any) -> float:
    return sum(value for value, _ in cost(inputs))


def average(inputs: Any, number: Any) -> float:
    return add(inputs, number) / sum(count for _, count in cost(inputs))


def average_examples(inputs: Any, number: Any) -> float:
    return sum(value / count for value, count in cost(inputs)) / len(cost(inputs))


def share(inputs: Any, number: Any) -> float:
    return add(inputs, number) / number if number is not None else average(inputs, number)


def route(inputs: Any, number: Any) -> float:
    return share(inputs, number) + sum(value for value, _ in cost(inputs)) / len(cost(inputs)) / 7


def surprise(inputs: Any, number: Any) -> float:
    return max(value for value, _ in cost(inputs)) ** 2


ONE, TWO = Example((1, 2, 3), (1.0, 2.0, 4.0)), Example((1, -100, -100), (8.0, 0.0, 0.0))
THREE, FOUR = Example((1, 2, -100), (3.0, 5.0, 9.0)), Example((4, -100, 1), (0.5, 7.0, 6.0))
