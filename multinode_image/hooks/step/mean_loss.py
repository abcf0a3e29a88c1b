"""Weigh the losses of a Trainer, so that a step has the gradients of one process with the same batch.

A step of a Trainer has several batches: one for each rank and each accumulation. What is made of their losses depends
on the model (transformers/trainer.py, compute_loss and training_step). A model that takes any keyword gets the number
of labels of the whole step, and is expected to return the sum of its losses divided by that: its losses are added up.
Of any other model the mean of all losses is taken. Both are those of one process only where a loss is what is expected.
Many models take the number and return the mean of their own batch all the same (those of BERT and T5, all for
classification), some return a sum (CTC), or add something to what they divide (the loss of a router). Means of batches
with another number of labels each are not the mean of all.

So the loss of the first batch is computed for parts of it, without dropout and gradients: what becomes of parts when
they come together is what ought to become of the batches of a step. All ranks agree on that. Where it is neither a sum
nor a mean over labels or examples, nothing is changed, and one line says what the Trainer does.

Where a model is compiled it runs as it is written for that; torch before 2.6 cannot be told so, and a Trainer that
compiles is left alone there.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from multinode_image.hooks.step.gradients import SEEN
from multinode_image.hooks.step.router_loss import share_routers
from multinode_image.machine.image import release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# What a loss is of the parts of its batch: their sum, or their mean by labels or by examples; or a sum that is divided
# by the number of labels of the step and the loss of routers beside it, which is not; or nothing that is known here.
SUM, LABELS, EXAMPLES, MIXED, UNKNOWN = "sum", "labels", "examples", "mixed", "unknown"
OF_CTC = {"sum": SUM, "mean": EXAMPLES}  # by ctc_loss_reduction of a model's configuration
LIKELY = (SUM, LABELS, EXAMPLES)  # the first one counts where several hold
# Of a loss, what it may differ by from what its parts say: bfloat16 takes a hundredth. What a router adds is no mean
# of parts to the last digit, but much nearer to their mean than to their sum.
ERROR, ROUGHLY = 0.02, 0.2
LEAST = 1e-6  # a loss that says nothing
# Releases whose Trainer divides no loss by the batches of a step, also where the model gets no number of labels
# (transformers/trainer.py, training_step: 4.46.0 multiplies by what accelerate divides by, 4.48 divides).
ADDS_ALL = ((4, 46), (4, 47))
# An attribute of a Trainer: what is known of its losses.
WEIGHTS = "_multinode_weights"


class Batch(NamedTuple):
    """A batch or a part of it, and how many labels and examples it has."""

    inputs: Any
    labels: int
    examples: int


class Weights:
    """What is known of the losses of a Trainer.

    kind: one of those above, empty before the first batch; counted: whether the Trainer has counted the labels of this
    step; labels, examples: those of all batches of the step, as far as they are needed.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.kind = ""
        self.counted = False
        self.labels = self.examples = 0


def find_weights(trainer: Any) -> Weights:
    """Return what is known of a Trainer."""
    if not hasattr(trainer, WEIGHTS):
        setattr(trainer, WEIGHTS, Weights())
    weights: Weights = getattr(trainer, WEIGHTS)
    return weights


def can_run_eagerly() -> bool:
    """Return whether this torch can leave out all that is compiled for a while."""
    return hasattr(getattr(torch, "compiler", None), "set_stance")


def run_eagerly() -> contextlib.AbstractContextManager[object]:
    """Return a context in which nothing is compiled; torch's compiler, which takes seconds to import, is not."""
    if can_run_eagerly() and "torch._dynamo" in sys.modules:
        stance: contextlib.AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
        return stance
    return contextlib.nullcontext()


def count_labels(trainer: Any, inputs: Any) -> int:
    """Return how many labels a batch has, as the Trainer counts them (_get_num_items_in_batch); 0 where it has none."""
    labels = inputs["shift_labels"] if "shift_labels" in inputs else inputs.get("labels")
    if not torch.is_tensor(labels):
        return 0
    shifts = "shift_labels" not in inputs and getattr(trainer, "_loss_shifts_labels", False)
    return int((labels[..., 1:] if shifts else labels).ne(-100).sum())


def count_examples(inputs: Any) -> int:
    """Return how many examples a batch has: those with labels, or those of all its parts; 0 where that is unclear."""
    lengths = [measure(inputs.get("labels"))] if measure(inputs.get("labels")) else map(measure, inputs.values())
    known = {length for length in lengths if length}
    return known.pop() if len(known) == 1 else 0


def measure(value: Any) -> int:
    """Return the length of a part of a batch, 0 where it has none."""
    lengthy = bool(value.dim()) if torch.is_tensor(value) else isinstance(value, (list, tuple))
    return len(value) if lengthy else 0


def count_step(trainer: Any) -> int:
    """Return how many batches of this rank a step has."""
    known = getattr(trainer, "current_gradient_accumulation_steps", None)
    return int(known or getattr(trainer.args, "gradient_accumulation_steps", None) or 1)


def averages(trainer: Any) -> bool:
    """Return whether all labels count the same, and not all ranks; 4.46.0 has no such option."""
    return bool(trainer.args.world_size > 1 and getattr(trainer.args, "average_tokens_across_devices", False))


def adds_up(trainer: Any, number: Any) -> bool:
    """Return whether the losses of a step are added up, and not averaged; number: that of labels, or None."""
    told = getattr(trainer, "loss_is_scaled_for_ga", None)
    if told is not None:
        return bool(told)
    if release(sys.modules["transformers"].__version__) in ADDS_ALL:
        return True
    return bool((trainer.model_accepts_loss_kwargs and number is not None) or trainer.compute_loss_func is not None)


def choose(inputs: Any, places: Sequence[int]) -> dict[str, Any]:
    """Return some examples of a batch; what is not of examples stays as it is."""
    number, some = count_examples(inputs), dict(inputs)
    for name, value in inputs.items():
        if measure(value) == number:
            some[name] = value[list(places)] if torch.is_tensor(value) else [value[place] for place in places]
    return some


def divide(trainer: Any, inputs: Any) -> list[Batch]:
    """Return a batch and two parts of it, of few labels and of many; none where it has no examples that can be told.

    One of a single example is taken twice, and so is one of which a part would have no labels.
    """

    def make(places: Sequence[int]) -> Batch:
        some = choose(inputs, places)
        return Batch(some, count_labels(trainer, some), len(places))

    number = count_examples(inputs)
    if not number:
        return []
    order = sorted(range(number), key=lambda place: make([place]).labels)
    few, many = order[: number // 2], order[number // 2 :]
    if not few or (make(order).labels and not make(few).labels):
        few = many = order
    return [make([*few, *many]), make(few), make(many)]


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Let a model compute without dropout, gradients, and what is compiled; it and what is random stay as they were."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]), run_eagerly():
            yield
    finally:
        for module, training in modes:
            module.training = training


def agree(errors: Sequence[float]) -> list[float]:
    """Return the largest error of any rank, for each of several; one that is no number is infinite."""
    known = torch.tensor([error if math.isfinite(error) else math.inf for error in errors])
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.all_reduce(known, op=distributed.ReduceOp.MAX)
    return [float(error) for error in known]


def tell(losses: Callable[[Batch, float], float], batches: Sequence[Batch], counted: bool) -> str:
    """Return what a loss is of the parts of its batch, on all ranks.

    losses: that of a batch, with the number of labels multiplied by a factor; counted: whether the model is told it.
    """
    errors = agree(compare([losses(batch, 1.0) for batch in batches], batches))
    best = min(errors)
    if best <= ERROR:
        return next(kind for kind, error in zip(LIKELY, errors) if error <= max(2 * best, 1e-5))
    if not counted:
        return UNKNOWN
    (mixed,) = agree([compare_mixed(losses, batches)])
    return MIXED if mixed <= ERROR else UNKNOWN


def compare(losses: Sequence[float], batches: Sequence[Batch]) -> list[float]:
    """Return what a loss differs by from what its parts say, for each of LIKELY; infinite where they say nothing."""
    if not batches or abs(losses[0]) < LEAST:
        return [math.inf] * len(LIKELY)
    whole, first, second = losses
    _, few, many = batches
    said = [first + second]
    for mine, other in ((few.labels, many.labels), (few.examples, many.examples)):
        said.append((mine * first + other * second) / (mine + other) if mine + other else math.inf)
    return [abs(whole - value) / abs(whole) for value in said]


def compare_mixed(losses: Callable[[Batch, float], float], batches: Sequence[Batch]) -> float:
    """Return what a loss differs by from a sum that is divided by the number of labels, and a mean beside it."""
    if not batches:
        return math.inf
    sums, means = [], []
    for batch in batches:
        once, twice = losses(batch, 1.0), losses(batch, 2.0)
        means.append(2 * twice - once)
        sums.append(once - means[-1])
    whole = abs(sums[0]) + abs(means[0])
    unlike = abs(losses(batches[0], 4.0) - sums[0] / 4 - means[0])  # from what is divided by the number, and the rest
    rough = abs(means[0] - (means[1] + means[2]) / 2) * ERROR / ROUGHLY
    return max(unlike, abs(sums[0] - sums[1] - sums[2]), rough) / max(whole, LEAST)


def weigh_losses(module: Any) -> None:
    """Weigh the losses of a step as in one process; module: transformers.trainer, from 4.46 on."""
    plain = module.Trainer.compute_loss
    if "num_items_in_batch" not in inspect.signature(plain).parameters:
        return

    @functools.wraps(plain)
    def compute_loss(
        self: Any, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        number = num_items_in_batch
        if not is_step(self, model, inputs, number):
            return plain(self, model, inputs, return_outputs, number)
        weights, here = find_weights(self), dict(inputs)
        if not weights.kind:
            weights.kind = look(self, model, here, functools.partial(plain, self), number)
            say(self, weights.kind, number)
        factor, given = weigh(self, weights, here, number)
        result = plain(self, model, inputs, return_outputs, given)
        return (result[0] * factor, result[1]) if return_outputs else result * factor

    module.Trainer.compute_loss = compute_loss
    if hasattr(module.Trainer, "get_batch_samples"):
        module.Trainer.get_batch_samples = count_and_get(module.Trainer.get_batch_samples)


def is_step(trainer: Any, model: Any, inputs: Any, number: Any) -> bool:
    """Return whether a loss is one of several of a step, and it is the Trainer that asks for it.

    A compute_loss of the script's that hands on another number than the Trainer's knows what it does.
    """
    several = trainer.args.world_size > 1 or count_step(trainer) > 1
    known = not trainer.args.torch_compile or can_run_eagerly()
    theirs = find_weights(trainer).counted != (number is not None)
    trains = model.training and torch.is_grad_enabled()
    return bool(several and known and not theirs and trains and hasattr(inputs, "get"))


def look(trainer: Any, model: Any, inputs: Any, plain: Callable[..., Any], number: Any) -> str:
    """Return what the loss of a model is of the parts of its batch."""
    module = trainer.accelerator.unwrap_model(model)

    def compute(batch: Batch, factor: float) -> float:
        try:
            return float(plain(module, dict(batch.inputs), False, None if number is None else number * factor))
        except Exception:  # of a model that takes no part of a batch: no training ends for that
            return math.nan

    with evaluating(module):
        kind = tell(compute, divide(trainer, inputs), number is not None)
    if kind == MIXED and share_routers(module):
        return MIXED
    return read_kind(module) if kind in (UNKNOWN, MIXED) else kind


def read_kind(model: Any) -> str:
    """Return what transformers says of a loss: torch's ctc_loss is not that of the parts of a batch."""
    reduction = getattr(getattr(model, "config", None), "ctc_loss_reduction", "")
    return OF_CTC.get(str(reduction), UNKNOWN) if type(model).__name__.endswith("ForCTC") else UNKNOWN


def weigh(trainer: Any, weights: Weights, inputs: Any, number: Any) -> tuple[Any, Any]:
    """Return what a loss is multiplied by, and the number of labels that the model gets.

    What the Trainer adds up of a step ought to be the loss of one batch, and so ought what it takes the mean of.
    """
    ranks = trainer.args.world_size if averages(trainer) else 1
    times, kind = 1 if adds_up(trainer, number) else ranks * count_step(trainer), weights.kind
    if kind == LABELS:
        return times * count_labels(trainer, inputs) / (number if weights.counted else weights.labels), number
    if kind == EXAMPLES:
        return times * count_examples(inputs) / weights.examples, number
    if kind == MIXED:
        batches = ranks * count_step(trainer)  # a mean of them all, and the number that makes the sum what it was
        return 1 / batches, number / batches
    return times if kind == SUM else 1.0, number


def count_and_get(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return how a Trainer gets the batches of a step, and counts what it does not count itself."""

    @functools.wraps(plain)
    def get_batch_samples(self: Any, *words: Any, **options: Any) -> Any:
        with counting_waits(self.accelerator):
            batches, number = plain(self, *words, **options)
            count(self, batches, number)
        return batches, number

    return get_batch_samples


def count(trainer: Any, batches: Any, number: Any) -> None:
    """Keep how many labels and examples all batches of a step have, as far as they are needed."""
    weights = find_weights(trainer)
    weights.counted = number is not None
    needs = weights.kind in ("", EXAMPLES) or (weights.kind == LABELS and not weights.counted)
    if batches and needs and (trainer.args.world_size > 1 or len(batches) > 1):
        counts = [(count_labels(trainer, batch), count_examples(batch)) for batch in batches if hasattr(batch, "get")]
        total = torch.tensor([counts]).sum(1) if counts else torch.zeros(1, 2, dtype=torch.long)
        if averages(trainer):
            total = trainer.accelerator.gather(total)
        weights.labels, weights.examples = total.sum(0).tolist()


@contextlib.contextmanager
def counting_waits(accelerator: Any) -> Iterator[None]:
    """Count as waited what ranks wait here for each other: they would wait for gradients otherwise (progress.py)."""
    gather = accelerator.gather

    def gather_and_count(*words: Any, **options: Any) -> Any:
        began = time.monotonic()
        try:
            return gather(*words, **options)
        finally:
            if SEEN.waited is not None:
                SEEN.waited += time.monotonic() - began

    accelerator.gather = gather_and_count
    try:
        yield
    finally:
        del accelerator.gather


def say(trainer: Any, kind: str, number: Any) -> None:
    """Print what is made of the losses of a Trainer, once for the job, where that is not what it does itself."""
    name = type(trainer.accelerator.unwrap_model(trainer.model)).__name__
    text = describe(kind, trainer.args.world_size * count_step(trainer), adds_up(trainer, number))
    if text and os.environ.get("RANK", "0") == "0":
        print(f"multinode: {name} {text}", file=sys.stderr, flush=True)


def describe(kind: str, count: int, added: bool) -> str:
    """Return what is made of the losses of the batches of a step; added: whether the Trainer would add them up."""
    if kind in (LABELS, EXAMPLES) and added:
        means = f"returns the mean loss of its own batch, {count} of which the Trainer would add up"
        return f"{means}; each counts by its {kind} here, as in one process"
    if kind == SUM and not added:
        return f"returns the sum of its losses, and the Trainer would take the mean of {count}; they are added up here"
    if kind == MIXED:
        return f"adds the loss of its routers, which no number of labels divides: the mean of {count} counts here"
    if kind == UNKNOWN:
        means = f"that of a step is the {'sum' if added else 'mean'} of {count}, as the Trainer has it"
        return f"has a loss that is neither the sum nor the mean of those of parts of its batch: {means}"
    return ""
