"""What a loss is of the parts of its batch, and how a batch is divided and counted; torch is made up."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tests.support.torch_losses import (
    FOUR,
    ONE,
    THREE,
    TWO,
    Example,
    Tensor,
    Torch,
    batch,
    cost,
    loaded,
)  # fmt: skip


@pytest.fixture
def torch() -> Torch:
    return Torch()


@pytest.fixture
def mean_loss(torch: Torch) -> Iterator[Any]:
    with loaded(torch) as module:
        yield module


@pytest.mark.parametrize(
    ("inputs", "shifts", "labels", "examples"),
    [
        ({"labels": Tensor([[1, 2, -100], [-100, 3, 4]])}, False, 4, 2),
        ({"labels": Tensor([[1, 2, -100], [-100, 3, 4]])}, True, 3, 2),
        ({"labels": Tensor([[1, 2]]), "shift_labels": Tensor([[-100, 3]])}, True, 1, 1),
        ({"labels": [1, 2]}, False, 0, 2),
        ({"labels": None, "pixels": Tensor([[1], [2], [3]]), "scale": Tensor(1.0), "name": "four"}, False, 0, 3),
        ({"pixels": Tensor([[1], [2]]), "masks": [1, 2, 3]}, False, 0, 0),
        ({"pixels": Tensor([[1], [2]]), "masks": [1, 2]}, False, 0, 2),
        ({}, False, 0, 0),
    ],
)
def test_labels_and_examples_of_a_batch(mean_loss: Any, inputs: Any, shifts: bool, labels: int, examples: int) -> None:
    trainer = SimpleNamespace(_loss_shifts_labels=shifts)

    assert (mean_loss.count_labels(trainer, inputs), mean_loss.count_examples(inputs)) == (labels, examples)


NO_LABEL = Example((-100,) * 3, (1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("inputs", "parts"),
    [
        (batch(ONE, TWO, THREE), [(6, 3), (1, 1), (5, 2)]),
        (batch(ONE, TWO, THREE, FOUR), [(8, 4), (3, 2), (5, 2)]),
        (batch(ONE), [(6, 2), (3, 1), (3, 1)]),
        (batch(ONE, NO_LABEL), [(6, 4), (3, 2), (3, 2)]),
        (batch(ONE, TWO, NO_LABEL, NO_LABEL), [(8, 8), (4, 4), (4, 4)]),
        ({"pixels": [1, 2, 3, 4]}, [(0, 4), (0, 2), (0, 2)]),
        ({"pixels": 1}, []),
    ],
)
def test_a_batch_is_divided_by_its_labels(mean_loss: Any, inputs: Any, parts: list[tuple[int, int]]) -> None:
    divided = mean_loss.divide(SimpleNamespace(), inputs)

    assert [(part.labels, part.examples) for part in divided] == parts
    if parts and "costs" in inputs:
        assert [sum(count for _, count in cost(part.inputs)) for part in divided] == [count for count, _ in parts]


@pytest.mark.parametrize(
    ("losses", "kind"),
    [
        ((1.0, 6.0, 0.0), "labels"),  # of 1 and 5 labels, and 1 and 2 examples
        ((1.019, 6.0, 0.0), "labels"),
        ((1.022, 6.0, 0.0), "unknown"),
        ((2.0, 6.0, 0.0), "examples"),
        ((6.0, 6.0, 0.0), "sum"),
        ((-6.0, -6.0, 0.0), "sum"),
        ((1.0, 1.0, 0.012), "sum"),
        ((1.0, 1.0, 0.03), "unknown"),
        ((0.000001, 0.000006, 0.0), "labels"),
        ((0.0000009, 0.0000054, 0.0), "unknown"),
        ((1.0, 1.0, 1.0), "labels"),
        ((1.0, 1.05, 1.0), "labels"),  # 0.8 % from the mean by labels, 1.7 % from that by examples
        ((1.0, 1.03, 0.99), "labels"),
        ((1.0, 1.02, 0.993), "labels"),
    ],
)
@pytest.mark.parametrize("of_another", [None, "labels", "inf"])
def test_what_a_loss_is_of_its_parts_on_all_ranks(
    mean_loss: Any, losses: tuple[float, ...], kind: str, of_another: str | None
) -> None:
    """Another rank has found that it is no mean by labels, or no number."""
    parts = [mean_loss.Batch(None, 6, 3), mean_loss.Batch(None, 1, 1), mean_loss.Batch(None, 5, 2)]
    distributed: Any = ModuleType("torch.distributed")
    others = {"labels": [0.0, 1.0, 0.0], "inf": [math.inf] * 3, None: [0.0] * 3}[of_another]

    def reduce(known: Tensor, op: Callable[..., float]) -> None:
        known.values = [op(*pair) for pair in zip(known.values, others, strict=True)]

    vars(distributed).update(all_reduce=reduce, ReduceOp=SimpleNamespace(MAX=max), is_available=lambda: True,
                             is_initialized=lambda: True)  # fmt: skip
    with mock.patch.dict(sys.modules, {"torch.distributed": distributed}):
        told = mean_loss.tell(lambda part, _: losses[parts.index(part)], parts, False)

    assert of_another is not None or told == kind
    assert of_another != "labels" or told != "labels"
    assert of_another != "inf" or told == "unknown"


@pytest.mark.parametrize(
    ("sums", "means", "curve", "error"),
    [
        ((6.0, 2.0, 4.0), (3.0, 2.0, 4.0), 0.0, 0.0),
        ((6.0, 2.0, 3.0), (3.0, 2.0, 4.0), 0.0, 1 / 9),
        ((6.0, 2.0, 4.0), (3.0, 2.0, 5.0), 0.0, 0.05 / 9),  # a tenth of what it is apart: a router's mean is rough
        ((6.0, 2.0, 4.0), (3.0, 2.0, 4.0), 1.0, 0.875 / 9.5),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, 0.0),
    ],
)
def test_a_sum_that_is_divided_and_a_mean_beside_it(
    mean_loss: Any, sums: tuple[float, ...], means: tuple[float, ...], curve: float, error: float
) -> None:
    """curve: of what is divided by the square of the number."""
    parts = [mean_loss.Batch(None, 0, number) for number in range(3)]

    def lose(part: Any, factor: float) -> float:
        return float(sums[part.examples] / factor + means[part.examples] + curve * (not part.examples) / factor**2)

    if curve:
        assert mean_loss.compare_mixed(lose, parts) > 0.02
    else:
        assert mean_loss.compare_mixed(lose, parts) == pytest.approx(error)
    assert mean_loss.compare_mixed(lose, []) == math.inf


# The loss of routers, over all ranks.


class Loss(float):
    """A loss with gradients: what it is, and what of it has gradients."""

    def __new__(cls, value: float, grad: float) -> Loss:
        made = super().__new__(cls, value)
        made.grad = grad
        return made

    grad: float

    def detach(self) -> Loss:
        return Loss(float(self), 0.0)

    def __sub__(self, other: Any) -> Loss:
        return Loss(float(self) - float(other), self.grad - other.grad)

    def __add__(self, other: Any) -> Loss:
        return Loss(float(self) + float(other), self.grad + other.grad)

    def __rmul__(self, by: Any) -> Loss:
        return Loss(float(self) * by, self.grad * by)


@pytest.fixture
def router_loss(mean_loss: Any) -> Any:
    return sys.modules["multinode_image.hooks.step.router_loss"]


@pytest.mark.parametrize(
    ("ranks", "has_grad", "logits", "more", "shared"),
    [
        (3, True, ("a", "b"), {}, True), (1, True, ("a", "b"), {}, False), (3, False, ("a", "b"), {}, False),
        (3, True, None, {}, False), (3, True, ("a",), {"weight": 1}, False), (None, True, ("a",), {}, False),
    ],
)  # fmt: skip
def test_a_loss_of_routers_is_that_of_all_ranks_with_the_gradients_of_each_times_ranks(
    router_loss: Any, torch: Torch, monkeypatch: pytest.MonkeyPatch, ranks: int | None, has_grad: bool, logits: Any,
    more: dict[str, int], shared: bool,
) -> None:  # fmt: skip
    asked = list[Any]()

    def load_balancing_loss_func(*given: Any, **options: Any) -> Loss:
        asked.append((given, options))
        return Loss(2.0, 0.5)

    distributed: Any = ModuleType("torch.distributed")
    vars(distributed).update(is_initialized=lambda: ranks is not None, get_world_size=lambda: ranks)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    monkeypatch.setattr(router_loss, "collect", lambda module, *given: ("all", *given[1:]))
    torch.has_grad = has_grad

    loss = router_loss.share(load_balancing_loss_func)(logits, 8, 4, "mask", **more)

    assert asked == [(("all" if shared else logits, 8, 4, "mask"), more)]
    assert (float(loss), loss.grad) == (2.0, 1.5 if shared else 0.5)


def test_routers_of_a_model_are_shared_once(router_loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("modeling_made_up")
    vars(module)["load_balancing_loss_func"] = lambda *_: None
    monkeypatch.setitem(sys.modules, "modeling_made_up", module)
    part = type("Part", (), {"__module__": "modeling_made_up"})()
    plain = type("Part", (), {"__module__": __name__})()

    assert not router_loss.share_routers(SimpleNamespace(modules=lambda: [plain]))
    models = SimpleNamespace(modules=lambda: [plain, part])
    assert router_loss.share_routers(models)
    shared = module.load_balancing_loss_func
    assert hasattr(shared, "__wrapped__") and router_loss.share_routers(models)
    assert module.load_balancing_loss_func is shared
