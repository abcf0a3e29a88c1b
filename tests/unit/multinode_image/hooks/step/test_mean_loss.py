"""Which labels a batch has, as the Trainer counts them; with rows of numbers in the place of tensors."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

NAME = "multinode_image.hooks.step.mean_loss"


class Labels(list[int]):
    """A tensor of one row."""

    def __getitem__(self, place: Any) -> Any:
        return Labels([*self][place[1]])

    def ne(self, other: int) -> Labels:
        return Labels([int(each != other) for each in self])

    def sum(self) -> int:
        return sum(self)


@pytest.fixture
def hook() -> Iterator[Any]:
    modules = {name: ModuleType(name) for name in ("torch",)}
    vars(modules["torch"])["is_tensor"] = lambda value: isinstance(value, Labels)
    with mock.patch.dict(sys.modules, modules):
        for name in (NAME, "multinode_image.hooks.step.router_loss"):
            sys.modules.pop(name, None)
        yield importlib.import_module(NAME)
        for name in (NAME, "multinode_image.hooks.step.router_loss"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("inputs", "shifts", "count"),
    [
        ({"labels": Labels([1, 2, -100, 4])}, False, 3),
        ({"labels": Labels([1, 2, -100, 4])}, True, 2),  # the first one is no label of a model that shifts them
        ({"labels": Labels([-100, 2, -100, 4])}, True, 2),
        ({"shift_labels": Labels([1, 2, 3])}, True, 3),  # shifted already
        ({"shift_labels": Labels([1, 2, 3]), "labels": Labels([1])}, True, 3),
        ({"labels": [1, 2]}, False, 0),
        ({}, True, 0),
    ],
)
def test_labels_are_counted_as_the_trainer_does(hook: Any, inputs: dict[str, Any], shifts: bool, count: int) -> None:
    assert hook.count_labels(SimpleNamespace(_loss_shifts_labels=shifts), inputs) == count
