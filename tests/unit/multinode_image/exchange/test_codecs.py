"""The arithmetic of what ranks send, with numbers in the place of tensors; image tests have torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

NAME = "multinode_image.exchange.codecs"


@pytest.fixture
def codecs() -> Iterator[Any]:
    modules = {name: ModuleType(name) for name in ("torch", "torch.distributed")}
    vars(modules["torch"])["distributed"] = modules["torch.distributed"]
    with mock.patch.dict(sys.modules, modules):
        sys.modules.pop(NAME, None)
        yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


class Number:
    """A tensor of one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def mul_(self, by: float) -> Number:
        self.value *= by
        return self


class Ranks:
    """A rank among others that have these numbers."""

    def __init__(self, *others: float) -> None:
        self.others, self.size = others, 1 + len(others)

    def sum(self, tensor: Number) -> Any:
        tensor.value += sum(value / self.size for value in self.others)
        return mock.Mock()


@pytest.mark.parametrize(("mine", "others", "mean"), [(3.0, (), 3.0), (3.0, (5.0,), 4.0), (3.0, (6.0, 9.0), 6.0)])
def test_a_part_becomes_the_mean_of_all_ranks(codecs: Any, mine: float, others: tuple[float, ...], mean: float) -> None:
    part = Number(mine)
    assert list(codecs.average(part, Ranks(*others))) == [codecs.LAST]
    assert part.value == pytest.approx(mean)
