"""Train a model of DistilBERT's size on a core, and multiply just the matrices of such a step, each once in turn.

So a machine that becomes slower meanwhile favours neither. Both are measured in processor time, which other work on the
machine changes less. It runs with the image's Python. The last line on stdout is JSON:
{"operations": of the products of a step, "step": [seconds, ...], "products": [seconds, ...]}
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DistilBertConfig, DistilBertForQuestionAnswering

SEED = 11
STEP, PRODUCTS = "step", "products"
# What multiplies matrices, which are its last two arguments.
MULTIPLY = frozenset(getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm", "baddbmm"))


class Recorder(TorchDispatchMode):
    """Keep every product of matrices: what computes it, and the size and the strides of each argument."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        super().__init__()
        self.products: list[tuple[Any, Sequence[tuple[Sequence[int], Sequence[int]]]]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Compute as without it."""
        if function in MULTIPLY:
            self.products.append((function, [(tuple(argument.size()), argument.stride()) for argument in args]))
        return function(*args, **(kwargs or {}))

    def count_operations(self) -> int:
        """Return how many multiplications and additions all products are."""
        pairs = [(left, right) for _, (*_, (left, _), (right, _)) in self.products]
        return sum(2 * torch.Size(left).numel() * right[-1] for left, right in pairs)

    def repeat(self) -> Callable[[], None]:
        """Return what computes all products again, in their order, from matrices of random numbers."""
        layouts = {layout for _, arguments in self.products for layout in arguments}
        tensors = {layout: torch.empty_strided(*layout).normal_() for layout in layouts}
        calls = [(function, [tensors[layout] for layout in arguments]) for function, arguments in self.products]

        def multiply() -> None:
            for function, arguments in calls:
                function(*arguments)

        return multiply


def read(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--turns", type=int, default=4)
    return parser.parse_args(argv)


def prepare(options: argparse.Namespace) -> Callable[[], None]:
    """Return what makes a step as the Trainer does it."""
    torch.manual_seed(SEED)
    model = DistilBertForQuestionAnswering(DistilBertConfig(n_layers=options.layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    words = torch.randint(1000, 30000, (options.batch, options.length))
    mask, places = torch.ones_like(words), torch.arange(options.batch) % options.length

    def step() -> None:
        model(input_ids=words, attention_mask=mask, start_positions=places, end_positions=places).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def main(argv: list[str]) -> None:
    """Measure both in turn, and print."""
    options = read(argv)
    step, recorder = prepare(options), Recorder()
    with recorder:
        step()
    works = {STEP: step, PRODUCTS: recorder.repeat()}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(options.turns):
        for name in sorted(works, reverse=bool(number % 2)):
            began = time.process_time()
            works[name]()
            seconds[name].append(time.process_time() - began)
    print(json.dumps({"operations": recorder.count_operations(), **seconds}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
