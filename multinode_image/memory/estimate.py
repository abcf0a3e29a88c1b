"""How much memory a rank of a training takes at its peak, by arithmetic from its model, batch and length.

What a rank keeps: Python with torch and transformers, weights, the two moments of AdamW, with several ranks the buckets
in which DistributedDataParallel sends gradients. To that comes the larger of two: what a forward pass keeps for the
backward one, or the gradients, which take its place; with accumulation both. The numbers of PARTS are those of
transformers' layers, and docs/training.md has what was measured beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.facts import Facts
from multinode_image.machine.image import release
from multinode_image.machine.limits import MORE_MEMORY, has_bf16, write_size
from multinode_image.machine.places import expand_user, find_models
from multinode_image.memory.model import Model, find_model, read_model
from multinode_image.reading import is_true
from multinode_image.situation import Situation
from multinode_image.tasks.aliases import find_argument, find_number
from multinode_image.tasks.arguments import ACCUMULATION, BATCH_SIZE

# Python with torch, transformers and datasets (torch 2.13): of a rank, and of torchrun beside the ranks.
BASE, AGENT = 560 << 20, 300 << 20
# Heads with a result for each word of the vocabulary, and bytes that each of these takes, loss and gradient included.
OF_WORDS, PER_WORD = ("LMHeadModel", "ForCausalLM", "ForMaskedLM", "ForPreTraining"), 16
# Numbers that an optimizer keeps for a weight; those that are not here keep two, as AdamW does.
MOMENTS = {"adafactor": 0, "sgd": 0, "adagrad": 1, "rmsprop": 1, "lion_32bit": 1}


class Parts(NamedTuple):
    """Bytes that a layer keeps for a word: for each number of its width, of its inner width, and of attention's."""

    hidden: float
    inner: float
    attention: float


# By whether a model is built as Llama is, and whether it computes in bfloat16: attention with dropout takes as much
# then, as was measured.
PARTS = {
    (False, False): Parts(44, 8, 12),
    (False, True): Parts(36, 4, 12),
    (True, False): Parts(44, 16, 12),
    (True, True): Parts(40, 8, 12),
}


class Workload(NamedTuple):
    """What counts of a training: examples of a rank at once, the words of one, and how it is computed."""

    batch: int
    length: int
    bf16: bool = False
    several: bool = False
    accumulates: bool = False
    recomputes: bool = False
    optimizer: str = "adamw"


def estimate_rank(model: Model, training: Workload) -> int:
    """Return the bytes that a rank takes at its peak."""
    weights = model.weights * model.width
    kept = weights * (1 + MOMENTS.get(training.optimizer, 2) + training.several)
    copies = 2 * model.weights if training.bf16 and model.width == 4 else 0  # autocast's, until a backward pass ends
    forward = estimate_activations(model, training) + copies
    passing = forward + weights if training.accumulates else max(forward, weights)
    return int(BASE + kept + passing)


def estimate_activations(model: Model, training: Workload) -> int:
    """Return the bytes that a forward pass keeps for the backward one."""
    parts = PARTS[(model.is_gated, training.bf16 or model.width == 2)]
    words = training.batch * training.length
    layer = words * (parts.hidden * model.hidden + parts.inner * model.inner)
    if model.dropout:  # without it torch never has all of the scores at once
        layer += parts.attention * words * training.length * model.heads
    layers = 1 + model.layers * model.hidden * 4 * words / layer if training.recomputes else model.layers
    head = words * model.words * PER_WORD if model.head.endswith(OF_WORDS) else 0
    return int(layer * layers + head)


# What `--explain` says of memory: what a rank and this node take, and what to change where the node has less.

# How arguments call a model, and the most words of an example.
MODELS = ("model_name_or_path", "model_name", "model_path", "model")
LENGTHS = ("max_seq_length", "max_length", "block_size", "max_seq_len", "max_source_length")
# What a Trainer takes where no argument says it (transformers/training_args.py), and a length that is often meant.
BATCH, LENGTH = 8, 128
# The first release that loads weights as they are stored, and not in float32.
AS_STORED = (5, 0)
LESS = "a smaller model, --optim adafactor, or more memory (docker run --memory, limits.memory of a pod)"


class Needed(NamedTuple):
    """What a training takes, in bytes: a rank, all of this node, of what it has; and of which model and batch."""

    rank: int
    node: int
    limit: int
    about: str
    remedy: str

    @property
    def text(self) -> str:
        """Return all in one row."""
        return f"{self.size}, of {write_size(self.limit)}: {self.about}"

    @property
    def size(self) -> str:
        """Return what is taken, for a rank and for all of this node where that is more."""
        here = f", {write_size(self.node)} here" if self.node != self.rank else ""
        return f"about {write_size(self.rank)} a rank{here}"

    @property
    def note(self) -> str | None:
        """Return a warning where the node has less; None where it has enough."""
        if not 0 < self.limit < self.node:
            return None
        value = f"{self.size}, and there are {write_size(self.limit)}"
        return Refusal("the training would be killed for want of memory", value, self.remedy).note


def find_needed(situation: Situation, facts: Facts, arguments: Mapping[str, object]) -> Needed | None:
    """Return what a command takes; None where its arguments name no model, or one whose shape cannot be read."""
    model = load_model(facts, arguments) if situation.command.trains else None
    if model is None:
        return None
    training = read_workload(model, arguments, several=situation.meets_others)
    if facts.limits.flags and not has_bf16(facts.limits.flags):
        training = training._replace(bf16=False)
    ranks = situation.world.local_size or 1
    rank = estimate_rank(model, training)
    least = estimate_rank(model, training._replace(batch=0))
    node = ranks * rank + (AGENT if situation.role.is_torchrun else 0)
    batch = f"{training.batch} x {training.length} words in {'bfloat16' if training.bf16 else 'float32'}"
    return Needed(
        rank=rank,
        node=node,
        limit=facts.limits.memory,
        about=f"{model.weights / 1e6:.3g} million weights, {batch}",
        remedy=list_remedies(facts.limits.memory, least, ranks),
    )


def list_remedies(limit: int, least: int, ranks: int) -> str:
    """Return what to change; least: what a rank takes whatever its batch is."""
    fewer = "fewer ranks here (--nproc), " if ranks > 1 else ""
    return fewer + (LESS if ranks * least > limit else MORE_MEMORY)


def load_model(facts: Facts, arguments: Mapping[str, object]) -> Model | None:
    """Return the model that arguments name, if it is in this container."""
    names = (find_argument(arguments, flag) for flag in MODELS)
    name = next((str(value) for value in names if value not in (None, True, "")), "")
    environ = facts.environ_with_home
    cache = find_models(environ, facts.stack.transformers)
    revision = str(find_argument(arguments, "model_revision") or "main")
    place = find_model(expand_user(name, environ.get("HOME", "")), cache, revision)
    model = read_model(place) if place else None
    return model._replace(width=4) if model and release(facts.stack.transformers) < AS_STORED else model


def read_workload(model: Model, arguments: Mapping[str, object], *, several: bool) -> Workload:
    """Return what counts of the arguments; what none of them says is as usual."""
    lengths = (find_number(arguments, name) for name in LENGTHS)
    return Workload(
        batch=find_number(arguments, BATCH_SIZE) or BATCH,
        length=min(next(filter(None, lengths), LENGTH), model.places or LENGTH),
        bf16=is_true(find_argument(arguments, "bf16")),
        several=several,
        accumulates=(find_number(arguments, ACCUMULATION) or 1) > 1,
        recomputes=is_true(find_argument(arguments, "gradient_checkpointing")),
        optimizer=str(find_argument(arguments, "optim") or "adamw"),
    )
