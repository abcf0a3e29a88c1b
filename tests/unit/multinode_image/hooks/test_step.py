"""A step of a Trainer makes of the losses of its batches what one process makes of one batch; torch is made up."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tests.support.torch_losses import (
    FOUR,
    ONE,
    THREE,
    TWO,
    Tensor,
    Torch,
    add,
    average,
    average_examples,
    batch,
    cost,
    loaded,
    route,
    share,
    surprise,
)  # fmt: skip


@pytest.fixture
def torch() -> Torch:
    return Torch()


@pytest.fixture
def mean_loss(torch: Torch) -> Iterator[Any]:
    with loaded(torch) as module:
        yield module


class Model:
    """A model with one part that drops out at random, as long as it trains."""

    def __init__(self, loss: Callable[[Any, Any], float]) -> None:
        self.loss, self.training, self.modes = loss, True, list[bool]()
        self.part = SimpleNamespace(training=False)

    def modules(self) -> list[Any]:
        return [self, self.part]

    def eval(self) -> None:
        self.training = self.part.training = False


class Accelerator:
    """That of a Trainer."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def unwrap_model(self, model: Any) -> Any:
        return model

    def gather(self, total: Tensor) -> Tensor:
        """Put what is counted on the other ranks beside it."""
        rows = [[sum(count for one in batches for _, count in cost(one)), sum(len(one["costs"]) for one in batches)]
                for batches in self.trainer.all]  # fmt: skip
        assert total.values[0] == rows[self.trainer.rank]
        return Tensor(rows)


class Trainer:
    """A Trainer of one rank, as transformers 4.57 has it."""

    def __init__(
        self, model: Model, ranks: int, steps: int, *, takes: bool, counts: bool, averages: bool, rank: int = 0
    ) -> None:
        self.model, self.rank, self.counts = model, rank, counts
        self.model_accepts_loss_kwargs, self.compute_loss_func = takes, None
        self.args = SimpleNamespace(
            world_size=ranks, gradient_accumulation_steps=steps, average_tokens_across_devices=averages,
            torch_compile=False,
        )  # fmt: skip
        self.accelerator = Accelerator(self)
        self.all: list[list[Any]] = []

    @property
    def averages(self) -> bool:
        return bool(self.args.average_tokens_across_devices and self.args.world_size > 1)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        model.modes.append(model.training)
        loss = model.loss(inputs, num_items_in_batch if self.model_accepts_loss_kwargs else None)
        if self.averages and self.model_accepts_loss_kwargs and num_items_in_batch is not None:
            loss *= self.args.world_size
        return (loss, "outputs") if return_outputs else loss

    def get_batch_samples(self, batches: list[Any], number: Any) -> tuple[Any, Any]:
        return batches, number

    def step(self, ranks: list[list[Any]]) -> float:
        """Return the loss whose gradients a rank has in a step, before those of all ranks are averaged."""
        self.all, mine = ranks, ranks[self.rank]
        counted = [one for batches in (ranks if self.averages else [mine]) for one in batches]
        number = sum(count for one in counted for _, count in cost(one)) if self.counts else None
        batches, number = self.get_batch_samples(mine, number)
        total = 0.0
        for one in batches:
            loss = self.compute_loss(self.model, one, num_items_in_batch=number)
            total += loss if self.model_accepts_loss_kwargs and number is not None else loss / len(batches)
        return total


def make_kind(mean_loss: Any) -> Any:
    """Return the Trainer's class as it is after the import of transformers."""

    class Changed(Trainer):
        pass

    mean_loss.weigh_losses(SimpleNamespace(Trainer=Changed))
    return Changed


RANKS = [[batch(ONE, TWO), batch(THREE)], [batch(FOUR, TWO, THREE), batch(ONE, FOUR)]]


def merge(batches: Sequence[Any]) -> dict[str, Any]:
    """Return all examples of several batches as one."""
    return {"labels": Tensor([row for one in batches for row in one["labels"]]),
            "costs": [row for one in batches for row in one["costs"]]}  # fmt: skip


def expect(loss: Callable[[Any, Any], float], ranks: list[list[Any]], averages: bool, number: bool) -> float:
    """Return what one process makes of all batches, or the mean of what each rank makes of its own."""
    groups = [[one for batches in ranks for one in batches]] if averages else ranks
    wholes = [merge(batches) for batches in groups]
    counts = [sum(count for _, count in cost(whole)) if number else None for whole in wholes]
    if loss is route:
        means = [sum(route(one, math.inf) for one in batches) / len(batches) for batches in groups]
        return sum(share(whole, count) + mean for whole, count, mean in zip(wholes, counts, means, strict=True)) / len(
            groups
        )
    return sum(loss(whole, count) for whole, count in zip(wholes, counts, strict=True)) / len(groups)


KINDS = {
    "sum": (add, "returns the sum"), "labels": (average, "returns the mean loss"),
    "examples": (average_examples, "returns the mean loss"), "of all": (share, ""),
    "mixed": (route, "adds the loss of its routers"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("averages", [True, False], ids=["labels count alike", "ranks count alike"])
@pytest.mark.parametrize("counts", [True, False], ids=["counted", "not counted"])
@pytest.mark.parametrize("takes", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("ranks", [RANKS, RANKS[:1], [RANKS[0][:1], RANKS[1][:1]]], ids=["2 x 2", "1 x 2", "2 x 1"])
def test_a_step_of_several_batches_is_that_of_one_process(
    mean_loss: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ranks: list[list[Any]],
    takes: bool, counts: bool, averages: bool, kind: str,
) -> None:  # fmt: skip
    loss, said = KINDS[kind]
    told = takes and counts
    if kind == "mixed" and not told:
        return  # a model of routers divides by what it is told
    monkeypatch.setattr(mean_loss, "share_routers", lambda _: True)
    monkeypatch.setenv("RANK", "0")
    changed, total = make_kind(mean_loss), 0.0
    for rank in range(len(ranks)):
        model = Model(loss)
        trainer = changed(model, len(ranks), len(ranks[0]), takes=takes, counts=counts, averages=averages, rank=rank)
        first = trainer.step(ranks)
        assert trainer.step(ranks) == pytest.approx(first)
        assert (model.training, model.part.training) == (True, False)
        assert False in model.modes and model.modes[-len(ranks[0]) :] == [True] * len(ranks[0])
        total += first / len(ranks)

    assert total == pytest.approx(expect(loss, ranks, averages and len(ranks) > 1, told))
    lines = capsys.readouterr().err.splitlines()
    speaks = said and (told or kind not in ("labels", "examples")) and not (kind == "sum" and told)
    assert [line for line in lines if said in line] == lines and len(lines) == (len(ranks) if speaks else 0)


class WavForCTC(Model):
    """A model of transformers with a loss that its parts do not tell."""

    def __init__(self, reduction: str) -> None:
        super().__init__(surprise)
        self.config = SimpleNamespace(ctc_loss_reduction=reduction)


class Wav(WavForCTC):
    """Another one, whose configuration says nothing of its loss."""


@pytest.mark.parametrize(
    ("model", "counts", "factors", "said"),
    [
        (Model(surprise), False, [1, 1], "has a loss that is neither the sum nor the mean of those of parts"),
        (Model(surprise), True, [1, 1], "that of a step is the sum of 2"),
        (Model(lambda *_: 0.0), True, [1, 1], "has a loss that is neither"),
        (Model(lambda *_: math.nan), True, [1, 1], "has a loss that is neither"),
        (Model(lambda inputs, _: inputs["absent"]), False, [1, 1], "has a loss that is neither"),
        (WavForCTC("sum"), False, [2, 2], "returns the sum"),
        (WavForCTC("mean"), True, [2 / 3, 1 / 3], "each counts by its examples here"),
        (WavForCTC("none"), False, [1, 1], "has a loss that is neither"),
        (Wav("sum"), False, [1, 1], "has a loss that is neither"),
        (Model(route), True, [1, 1], "has a loss that is neither"),  # of routers that are not known
    ],
)
def test_what_is_neither_sum_nor_mean_stays_as_the_trainer_has_it(
    mean_loss: Any, capsys: pytest.CaptureFixture[str], model: Model, counts: bool, factors: list[float], said: str
) -> None:
    mine = RANKS[0]
    trainer = make_kind(mean_loss)(model, 1, 2, takes=True, counts=counts, averages=True)
    weights = mean_loss.find_weights(trainer)
    trainer.all = [mine]
    _, number = trainer.get_batch_samples(mine, 6 if counts else None)

    weights.kind = mean_loss.look(trainer, model, mine[0], lambda *given: Trainer.compute_loss(trainer, *given), number)
    mean_loss.say(trainer, weights.kind, number)

    assert [mean_loss.weigh(trainer, weights, one, number)[0] for one in mine] == pytest.approx(factors)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "left", ["nothing", "evaluates", "no gradients", "one batch", "compiles", "another number", "no names"]
)
@pytest.mark.parametrize("outputs", [True, False])
def test_only_the_losses_of_steps_are_weighed(mean_loss: Any, torch: Torch, left: str, outputs: bool) -> None:
    model, mine = Model(average), RANKS[0] if left != "one batch" else RANKS[0][:1]
    trainer = make_kind(mean_loss)(model, 1, len(mine), takes=True, counts=True, averages=True)
    trainer.all = [mine]
    _, number = trainer.get_batch_samples(mine, 6)
    inputs: Any = mine[0]
    model.training = left != "evaluates"
    torch.has_grad = left != "no gradients"
    trainer.args.torch_compile = left == "compiles"
    if left == "no names":
        inputs = [*inputs.items()]
        model.loss = lambda *_: average(mine[0], 6)

    loss = trainer.compute_loss(model, inputs, outputs, number if left != "another number" else None)

    weighed = average(mine[0], 6) * (4 / 6 if left == "nothing" else 1)
    assert (loss if outputs else (loss, "outputs")) == (pytest.approx(weighed), "outputs")
    if left == "compiles":
        vars(torch)["compiler"] = SimpleNamespace(set_stance=lambda _: contextlib.nullcontext())
        assert trainer.compute_loss(model, inputs, num_items_in_batch=6) == pytest.approx(weighed * 4 / 6)


def test_a_trainer_that_counts_no_labels_is_left_alone(mean_loss: Any) -> None:
    class Old:
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False) -> None:
            pass

    plain = Old.compute_loss
    mean_loss.weigh_losses(SimpleNamespace(Trainer=Old))

    assert Old.compute_loss is plain


@pytest.mark.parametrize(
    ("fields", "steps", "number", "added"),
    [
        ({"current_gradient_accumulation_steps": 3}, 3, 1, True),
        ({}, 2, None, False),
        ({"model_accepts_loss_kwargs": False}, 2, 1, False),
        ({"model_accepts_loss_kwargs": False, "compute_loss_func": len}, 2, None, True),
        ({"args": SimpleNamespace(gradient_accumulation_steps=None)}, 1, 1, True),
        ({"loss_is_scaled_for_ga": False}, 2, 1, False),
        ({"loss_is_scaled_for_ga": True, "model_accepts_loss_kwargs": False}, 2, None, True),
    ],
)
def test_what_a_trainer_says_of_a_step(
    mean_loss: Any, fields: dict[str, Any], steps: int, number: int | None, added: bool
) -> None:
    trainer = Trainer(Model(add), 1, 2, takes=True, counts=True, averages=False)
    vars(trainer).update(fields)

    assert (mean_loss.count_step(trainer), mean_loss.adds_up(trainer, number)) == (steps, added)


def test_what_ranks_wait_to_count_labels_is_waited(mean_loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([1.0, 3.5, 4.0, 5.0])
    monkeypatch.setattr(mean_loss.time, "monotonic", lambda: next(now))
    accelerator = SimpleNamespace(trainer=None, gather=None)
    for waited, after in ((0.5, 3.0), (None, None)):
        monkeypatch.setattr(mean_loss.SEEN, "waited", waited)
        vars(accelerator)["gather"] = lambda rows: rows
        with mean_loss.counting_waits(accelerator):
            assert accelerator.gather([1]) == [1]
        assert mean_loss.SEEN.waited == after


@pytest.mark.parametrize(
    ("args", "expected"),
    [({"world_size": 2, "average_tokens_across_devices": True}, True), ({"world_size": 2}, False),
     ({"world_size": 1, "average_tokens_across_devices": True}, False),
     ({"world_size": 2, "average_tokens_across_devices": False}, False)],
)  # fmt: skip
def test_labels_of_all_ranks_count_alike_where_the_trainer_says_so(
    mean_loss: Any, args: dict[str, Any], expected: bool
) -> None:
    assert mean_loss.averages(SimpleNamespace(args=SimpleNamespace(**args))) is expected


@pytest.mark.parametrize(
    ("stance", "is_loaded", "entered"), [(True, True, ["force_eager"]), (True, False, []), (False, True, [])]
)
def test_what_is_compiled_is_left_out_where_torch_can(
    mean_loss: Any, torch: Torch, stance: bool, is_loaded: bool, entered: list[str]
) -> None:
    stances = list[str]()

    @contextlib.contextmanager
    def set_stance(name: str) -> Iterator[None]:
        stances.append(name)
        yield

    vars(torch)["compiler"] = SimpleNamespace(**({"set_stance": set_stance} if stance else {}))
    loaded = {"torch._dynamo": ModuleType("torch._dynamo")} if is_loaded else {}
    model = Model(add)
    with mock.patch.dict(sys.modules, loaded), pytest.raises(ZeroDivisionError), mean_loss.evaluating(model):
        assert not model.training and not torch.has_grad
        raise ZeroDivisionError

    assert stances == entered and model.training
