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


class Row(list[float]):
    """A tensor of numbers of four bytes."""

    def numel(self) -> int:
        return len(self)

    def element_size(self) -> int:
        return 4

    def mul_(self, by: float) -> Row:
        self[:] = [value * by for value in self]
        return self

    def copy_(self, other: list[float]) -> Row:
        self[:] = other
        return self


@pytest.mark.parametrize("size", [2, 4])
def test_what_a_rank_sends_to_others_is_counted(codecs: Any, size: int) -> None:
    asked = list[tuple[Any, ...]]()

    def ask(name: str) -> Any:
        def collect(*tensors: Any, group: object, async_op: bool) -> str:
            asked.append((name, len(tensors), group, async_op))
            return name

        return collect

    vars(codecs.dist).update(get_world_size=lambda _: size, get_rank=lambda _: 1)
    for name in ("all_reduce", "all_gather", "all_to_all_single"):
        vars(codecs.dist)[name] = ask(name)
    ranks, tensor = codecs.Ranks("group"), Row([0.0] * 8)

    assert (ranks.size, ranks.rank, ranks.sent) == (size, 1, 0)
    sent = []
    for name, given in (("sum", (tensor,)), ("gather", (tensor, [tensor])), ("swap", (tensor, tensor))):
        before = ranks.sent
        assert getattr(ranks, name)(*given)
        sent.append(ranks.sent - before)
    assert sent == [2 * (size - 1) * 32 // size, (size - 1) * 32, (size - 1) * 32 // size]
    assert asked == [("all_reduce", 1, "group", True), ("all_gather", 2, "group", True),
                     ("all_to_all_single", 2, "group", True)]  # fmt: skip


@pytest.mark.parametrize("holds", [True, False])
def test_a_part_that_was_sent_in_the_wrong_type_goes_again(codecs: Any, holds: bool) -> None:
    log = list[str]()

    class Rounding(Row):
        """Keeps whole numbers alone."""

        def copy_(self, other: list[float]) -> Row:
            self[:] = [float(round(value)) for value in other]
            return self

    def add(tensor: Row) -> Any:
        tensor[:] = [value + 1.0 for value in tensor]
        return mock.Mock(wait=lambda: log.append("wait"))

    part, scratch = Row([3.0, 5.0]), Rounding([0.0, 0.0])
    ranks = mock.Mock(size=2, sum=add)

    def ask() -> bool:
        log.append("asked")
        return holds

    assert [*codecs.average_low(part, ranks, scratch, ask)] == [codecs.LAST] * (2 - holds)
    assert log == ["wait", "asked", *["wait"] * (not holds)]
    assert part == ([3.0, 3.0] if holds else [2.5, 3.5])
