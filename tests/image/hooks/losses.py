"""What a loss is of the parts of its batch, and what a step of a real Trainer makes of the losses of its batches."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import transformers
from torch import nn
from transformers import Trainer, TrainingArguments

from multinode_image.hooks.step import mean_loss, router_loss
from multinode_image.hooks.step.gradients import SEEN
from multinode_image.hooks.step.mean_loss import EXAMPLES, LABELS, MIXED, SUM, UNKNOWN, Batch

# Labels of an example, -100 where there is none, and what each of them costs.
ONE, TWO = ((1, 2, 3), (1.0, 2.0, 4.0)), ((1, -100, -100), (8.0, 0.0, 0.0))
THREE, FOUR = ((1, 2, -100), (3.0, 5.0, 9.0)), ((4, -100, 1), (0.5, 7.0, 6.0))
NO_LABEL = ((-100,) * 3, (1.0, 1.0, 1.0))
Loss = Callable[[Any, Any, Any], Any]


def batch(*examples: Any) -> dict[str, Any]:
    labels, costs = (torch.tensor(rows) for rows in zip(*examples, strict=True))
    return {"labels": labels, "costs": costs.double(), "is_train": True}


# Losses of costs and of what counts, both examples x labels; number: that of the labels of the step, if it is told.


def add(costs: Any, counts: Any, number: Any) -> Any:
    return (costs * counts).sum()


def average(costs: Any, counts: Any, number: Any) -> Any:
    return add(costs, counts, number) / counts.sum()


def average_examples(costs: Any, counts: Any, number: Any) -> Any:
    return ((costs * counts).sum(1) / counts.sum(1)).mean()


def share(costs: Any, counts: Any, number: Any) -> Any:
    return average(costs, counts, number) if number is None else add(costs, counts, number) / number


def balance(costs: Any, counts: Any, number: Any) -> Any:
    return (costs * counts).sum(1).mean() / 7


def route(costs: Any, counts: Any, number: Any) -> Any:
    return share(costs, counts, number) + balance(costs, counts, number)


def surprise(costs: Any, counts: Any, number: Any) -> Any:
    return (costs * counts).sum(1).max() ** 2


class Plain(nn.Module):
    """A model of one weight, whose gradient is the loss; it takes no keyword but those that it knows."""

    def __init__(self, loss: Loss, reduction: str = "") -> None:
        super().__init__()
        self.weight, self.loss = nn.Parameter(torch.ones((), dtype=torch.float64)), loss
        self.part = nn.Dropout()
        if reduction:
            self.config = SimpleNamespace(ctc_loss_reduction=reduction)

    def forward(self, labels: Any, costs: Any, is_train: Any = None) -> dict[str, Any]:
        return self.lose(labels, costs, None)

    def lose(self, labels: Any, costs: Any, number: Any) -> dict[str, Any]:
        return {"loss": self.weight * self.loss(costs, labels.ne(-100), number), "costs": costs}


class Told(Plain):
    """One that takes any keyword, and is told the number of labels of a step."""

    def forward(self, labels: Any, costs: Any, is_train: Any = None, **loss_kwargs: Any) -> dict[str, Any]:
        return self.lose(labels, costs, loss_kwargs.get("num_items_in_batch"))


class TellsForCTC(Told):
    """One whose configuration says what its loss is."""


@pytest.fixture
def weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let losses of the Trainer be weighed in this test."""
    for name in ("compute_loss", "get_batch_samples"):
        monkeypatch.setattr(Trainer, name, getattr(Trainer, name))
    mean_loss.weigh_losses(transformers.trainer)


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """Let the Trainer collect no garbage of imports: that takes longer than all that it does here."""
    gc.freeze()
    yield
    gc.unfreeze()


def prepare(place: Path, model: nn.Module, *rows: Any, **more: Any) -> Trainer:
    """Return a Trainer of steps of two batches, the last of which may be smaller."""
    usual: dict[str, Any] = {
        "use_cpu": True, "report_to": "none", "max_steps": 2, "per_device_train_batch_size": 2, "learning_rate": 0.001,
        "gradient_accumulation_steps": 2, "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
        "optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "remove_unused_columns": False,
    }  # fmt: skip
    args = TrainingArguments(str(place), **{**usual, **more})
    trainer = Trainer(model, args, train_dataset=[*rows], data_collator=lambda examples: batch(*examples))
    trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(rows)
    return trainer


PARTS = batch(ONE, THREE), batch(TWO)  # 5 labels and one, of two examples and one


def measure(loss: Loss, *batches: Any, number: Any = None) -> float:
    """Return the sum of the losses of batches."""
    return sum(float(loss(one["costs"], one["labels"].ne(-100), number)) for one in batches)


ADDS_ALL = transformers.__version__.startswith(("4.46.", "4.47."))  # their Trainer divides no loss
MEANS, ADDS, ROUTES, NEITHER = (
    "returns the mean loss of its own batch, 2 of which", "returns the sum", "adds the loss of its routers", "neither",
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "loss", "said", "expected"),
    [
        (Told, add, "", None), (Told, average, MEANS, None), (Told, average_examples, MEANS, None),
        (Told, share, "", None), (Told, surprise, NEITHER, measure(surprise, *PARTS)),
        (Told, route, ROUTES, measure(share, batch(ONE, TWO, THREE), number=6) + measure(balance, *PARTS) / 2),
        (Plain, add, "" if ADDS_ALL else ADDS, None), (Plain, average, MEANS if ADDS_ALL else "", None),
        (Plain, average_examples, MEANS if ADDS_ALL else "", None),
        (Plain, surprise, NEITHER, measure(surprise, *PARTS) / (1 if ADDS_ALL else 2)),
    ],
)  # fmt: skip
def test_a_step_of_two_batches_is_that_of_one(
    kind: Any, loss: Loss, said: str, expected: float | None, weighed: None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What is neither a sum nor a mean stays as the Trainer has it; expected: None for what one batch has."""
    if loss in (average, share, route) and transformers.__version__ in ("4.46.0", "4.46.1"):
        pytest.skip("this release leaves out a label of each row where it counts them (get_batch_samples)")
    if loss is route:  # a module of models with routers has this function
        monkeypatch.setattr(sys.modules[__name__], router_loss.NAME, balance, raising=False)
    model = kind(loss)
    prepare(tmp_path, model, ONE, THREE, TWO).train()

    whole = measure(loss, batch(ONE, TWO, THREE), number=6 if kind is Told else None)
    assert (1 - model.weight.item()) / 0.002 == pytest.approx(whole if expected is None else expected)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("multinode:")]
    assert len(lines) == bool(said) and all(f"{kind.__name__} " in line and said in line for line in lines)


def fail(*_: object) -> Any:
    raise KeyError


def lose_few(costs: Any, counts: Any, number: Any) -> Any:
    return 1.0 if len(costs) > 1 or costs[0, 1] else fail()


@pytest.mark.parametrize(
    ("model", "number", "kind"),
    [
        (Told(surprise), None, UNKNOWN), (Told(surprise), 6, UNKNOWN), (Told(share), 6, SUM),
        (Told(lambda *_: 0.0), 6, UNKNOWN), (Told(lambda *_: math.nan), 6, UNKNOWN), (Told(fail), None, UNKNOWN),
        (Told(lose_few), None, UNKNOWN), (Told(lambda *_: 1.0), None, LABELS),
        (TellsForCTC(surprise, "sum"), None, SUM), (TellsForCTC(surprise, "mean"), 6, EXAMPLES),
        (TellsForCTC(surprise, "none"), None, UNKNOWN), (TellsForCTC(surprise), None, UNKNOWN),
        (TellsForCTC(average, "sum"), None, LABELS),  # it is asked first
        (Told(surprise, "sum"), None, UNKNOWN),  # of another loss
        (Told(route), 6, UNKNOWN),  # of routers that are not known
    ],
)  # fmt: skip
def test_the_kind_of_a_loss(model: Plain, number: int | None, kind: str, tmp_path: Path) -> None:
    trainer = prepare(tmp_path, model)

    def plain(*words: Any) -> Any:
        return Trainer.compute_loss(trainer, *words)

    assert mean_loss.look(trainer, model, batch(ONE, TWO), plain, number) == kind


@pytest.mark.parametrize(
    ("kind", "number", "counts"),
    [
        ("", 6, (6, 3)), (EXAMPLES, 6, (6, 3)), (LABELS, None, (6, 3)), (LABELS, 6, (0, 0)), (SUM, None, (0, 0)),
        (UNKNOWN, None, (0, 0)),
    ],
)  # fmt: skip
def test_what_is_needed_of_a_step_is_counted(
    kind: str, number: int | None, counts: tuple[int, int], tmp_path: Path
) -> None:
    trainer = prepare(tmp_path, Told(add))
    weights = mean_loss.find_weights(trainer)
    weights.kind = kind

    mean_loss.count(trainer, PARTS, number)

    assert (weights.labels, weights.examples, weights.counted) == (*counts, number is not None)


@pytest.mark.parametrize(
    "left", ["nothing", "evaluates", "no gradients", "one batch", "compiles", "compiles by an old torch", "no number"]
)
@pytest.mark.parametrize("outputs", [True, False])
def test_only_the_losses_of_steps_are_weighed(
    left: str, outputs: bool, weighed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Told(average)
    trainer = prepare(tmp_path, model, gradient_accumulation_steps=1 if left == "one batch" else 2)
    weights, number = mean_loss.find_weights(trainer), 6
    weights.kind, weights.counted = LABELS, True
    model.train(left != "evaluates")
    trainer.args.torch_compile = left.startswith("compiles")
    monkeypatch.setattr(mean_loss, "can_run_eagerly", lambda: left != "compiles by an old torch")

    with torch.set_grad_enabled(left != "no gradients"):
        result = trainer.compute_loss(model, PARTS[0], outputs, None if left == "no number" else number)

    loss = result[0] if outputs else result
    assert not outputs or result[1]["costs"] is not None
    assert float(loss) == pytest.approx(measure(average, PARTS[0]) * (5 / 6 if left in ("nothing", "compiles") else 1))


class Older(Trainer):
    """The Trainer before 4.46, which counts no labels."""

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False) -> Any:
        """Compute it."""


def test_a_trainer_that_counts_no_labels_is_left_alone() -> None:
    plain = Older.compute_loss
    mean_loss.weigh_losses(SimpleNamespace(Trainer=Older))

    assert Older.compute_loss is plain


@pytest.mark.parametrize(
    ("fields", "steps", "number", "added"),
    [
        ({}, 2, 1, True),
        ({}, 2, None, False),
        ({"current_gradient_accumulation_steps": 3}, 3, 1, True),  # the last step of an epoch may have fewer
        ({"model_accepts_loss_kwargs": False}, 2, 1, False),
        ({"model_accepts_loss_kwargs": False, "compute_loss_func": len}, 2, None, True),
        ({"loss_is_scaled_for_ga": False}, 2, 1, False),
        ({"loss_is_scaled_for_ga": True, "model_accepts_loss_kwargs": False}, 2, None, True),
    ],
)
def test_what_a_trainer_says_of_a_step(
    fields: dict[str, Any], steps: int, number: int | None, added: bool, tmp_path: Path
) -> None:
    trainer = prepare(tmp_path, Told(add))
    vars(trainer).pop("current_gradient_accumulation_steps", None)
    vars(trainer).update(fields)

    added = added or (ADDS_ALL and "loss_is_scaled_for_ga" not in fields)
    assert (mean_loss.count_step(trainer), mean_loss.adds_up(trainer, number)) == (steps, added)


@pytest.mark.parametrize(
    ("ranks", "alike", "expected"), [(2, True, True), (2, False, False), (1, True, False), (2, None, False)]
)
def test_labels_of_all_ranks_count_alike_where_the_trainer_says_so(
    ranks: int, alike: bool | None, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = prepare(tmp_path, Told(add))
    monkeypatch.setattr(TrainingArguments, "world_size", ranks)
    trainer.args.average_tokens_across_devices = alike

    assert mean_loss.averages(trainer) is expected


@pytest.mark.parametrize(("waited", "after"), [(0.5, 3.0), (None, None)])
def test_what_ranks_wait_to_count_labels_is_waited(
    waited: float | None, after: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SEEN, "waited", waited)
    accelerator = prepare(tmp_path, Told(add)).accelerator
    with mock.patch("time.monotonic", mock.Mock(side_effect=[1.0, 3.5])), mean_loss.counting_waits(accelerator):
        assert accelerator.gather(torch.tensor([1])).tolist() == [1]
    assert SEEN.waited == after

    accelerator.gather(torch.tensor([1]))  # of an evaluation
    assert SEEN.waited == after


@pytest.mark.parametrize("compiled", [True, False])
def test_a_model_is_looked_at_as_it_is_written_and_stays_as_it_was(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled and not mean_loss.can_run_eagerly():
        pytest.skip("this torch cannot leave out what is compiled")
    graphs, model, values = list[Any](), Told(add), torch.ones(2)

    def keep(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    double = torch.compile(lambda value: value * 2, backend=keep) if compiled else lambda value: value * 2
    if not compiled:
        monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    model.part.eval()
    state = torch.random.get_rng_state()
    with contextlib.suppress(ZeroDivisionError), mean_loss.evaluating(model):
        assert not model.training and not torch.is_grad_enabled()
        assert double(values).tolist() == [2, 2] and float(torch.rand(1)) >= 0
        raise ZeroDivisionError

    assert (model.training, model.part.training, torch.is_grad_enabled()) == (True, False, True)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not graphs and (compiled or "torch._dynamo" not in sys.modules)
    assert double(values).tolist() == [2, 2] and len(graphs) == compiled


LABELED = torch.tensor([[1, 2, -100], [-100, 3, 4]])
ROWS = torch.tensor([[1], [2]])


@pytest.mark.parametrize(
    ("inputs", "examples"),
    [
        ({"labels": LABELED, "masks": [1, 2, 3]}, 2),
        ({"labels": [1, 2]}, 2),
        ({"labels": None, "pixels": ROWS, "scale": torch.tensor(1.0), "name": "four"}, 2),
        ({"pixels": ROWS, "masks": [1, 2, 3]}, 0),  # which of them is unclear
        ({"pixels": ROWS, "masks": (1, 2, 3)}, 0),
        ({"pixels": ROWS, "masks": (1, 2)}, 2),
        ({}, 0),
    ],
)
def test_examples_of_a_batch(inputs: Any, examples: int) -> None:
    assert mean_loss.count_examples(inputs) == examples


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
def test_a_batch_is_divided_by_its_labels(inputs: Any, parts: list[tuple[int, int]]) -> None:
    divided = mean_loss.divide(SimpleNamespace(), inputs)

    assert [(part.labels, part.examples) for part in divided] == parts
    for part in divided:
        assert [len(value) for value in part.inputs.values() if value is not True] == [part.examples] * (
            len(inputs) - ("is_train" in inputs)
        )


@pytest.mark.parametrize(
    ("losses", "kind"),
    [
        ((1.0, 6.0, 0.0), LABELS),  # of 1 and 5 labels, and 1 and 2 examples
        ((1.019, 6.0, 0.0), LABELS),
        ((1.022, 6.0, 0.0), UNKNOWN),
        ((2.0, 6.0, 0.0), EXAMPLES),
        ((6.0, 6.0, 0.0), SUM),
        ((-6.0, -6.0, 0.0), SUM),
        ((1.0, 1.0, 0.012), SUM),
        ((1.0, 1.0, 0.03), UNKNOWN),
        ((0.000001, 0.000006, 0.0), LABELS),
        ((0.0000009, 0.0000054, 0.0), UNKNOWN),
        ((1.0, 1.0, 1.0), LABELS),
        ((1.0, 1.05, 1.0), LABELS),  # 0.8 % from the mean by labels, 1.7 % from that by examples
        ((1.0275, 1.05, 1.0), LABELS),  # 1.9 % and 1.0 %: less than twice as much
        ((1.0225, 1.05, 1.0), EXAMPLES),  # 1.4 % and 0.6 %
    ],
)
def test_what_a_loss_is_of_its_parts(losses: tuple[float, ...], kind: str) -> None:
    parts = [Batch(None, 6, 3), Batch(None, 1, 1), Batch(None, 5, 2)]

    assert mean_loss.tell(lambda part, _: losses[parts.index(part)], parts, False) == kind


@pytest.mark.parametrize(
    ("sums", "means", "curve", "kind"),
    [
        ((6.0, 2.0, 4.0), (3.0, 2.0, 4.0), 0.0, MIXED),
        ((6.0, 2.0, 3.8), (3.0, 2.0, 4.0), 0.0, UNKNOWN),  # a fiftieth of all, 9.0, is 0.18
        ((6.0, 2.0, 3.85), (3.0, 2.0, 4.0), 0.0, MIXED),
        ((6.0, 2.0, 4.0), (3.0, 2.0, 7.0), 0.0, MIXED),  # a fifth of it is 1.8: what a router adds is roughly a mean
        ((6.0, 2.0, 4.0), (3.0, 2.0, 8.0), 0.0, UNKNOWN),
        ((6.0, 2.0, 7.0), (3.0, 2.0, 2.0), 2.0, UNKNOWN),  # twice the labels say 9.0 and 2.0, four times another
    ],
)
def test_a_sum_that_is_divided_and_a_mean_beside_it(
    sums: tuple[float, ...], means: tuple[float, ...], curve: float, kind: str
) -> None:
    """curve: of what is divided by the square of the number."""
    parts = [Batch(None, 0, number) for number in range(3)]

    def lose(part: Batch, factor: float) -> float:
        place = part.examples
        return sums[place] / factor + means[place] + curve * (not place) / factor**2

    assert mean_loss.tell(lose, parts, True) == kind
    assert mean_loss.tell(lose, [], True) == mean_loss.tell(lose, parts, False) == UNKNOWN
