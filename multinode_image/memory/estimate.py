"""How much memory a rank of a training takes at its peak, by arithmetic from its model, batch and length.

What a rank keeps: Python with torch and transformers, weights, the two moments of AdamW, with several ranks the buckets
in which DistributedDataParallel sends gradients. To that comes the larger of two: what a forward pass keeps for the
backward one, or the gradients, which take its place; with accumulation both. The numbers of PARTS are those of
transformers' layers, and docs/training.md has what was measured beside it.
"""

from __future__ import annotations

from typing import NamedTuple

from multinode_image.memory.model import Model

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
