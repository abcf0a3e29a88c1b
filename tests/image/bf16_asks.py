"""Ask for bf16 in every way that there is, and print what was computed in: a name -> a type, as JSON by rank 0.

main([LAST])    LAST: the last rank computes as on a processor without a unit, whatever the kernel says here
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch.distributed.fsdp import MixedPrecision
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

warnings.simplefilter("ignore")
CONFIG = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=2
)
ROWS = [{"input_ids": [1, 2, 3], "labels": 1}] * 8
INPUT = torch.ones(2, 4)


def make() -> Any:
    """Return a model, the last part of which takes one type alone."""
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))


@contextmanager
def watched(model: Any) -> Iterator[list[str]]:
    """Lend the types that the first layer of a model has computed."""
    types: list[str] = []
    layer = next(part for part in model.modules() if isinstance(part, torch.nn.Linear))
    layer.register_forward_hook(lambda *words: types.append(str(words[-1].dtype).removeprefix("torch.")))
    yield types


def compute(context: Any, model: Any) -> str:
    """Return what a forward and a backward pass compute in."""
    with watched(model) as types:
        with context:
            total = model(INPUT).sum()
        total.backward()
    return types[-1]


def train(evaluate: bool, **asked: Any) -> str:
    """Return what a Trainer computes in; its arguments stay as they were typed."""
    AcceleratorState._reset_state(True)
    model = BertForSequenceClassification(CONFIG)
    quiet = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "logging_strategy": "no"}
    arguments = TrainingArguments("/tmp/output", max_steps=2, **quiet, **asked)
    trainer = Trainer(model, arguments, train_dataset=ROWS, eval_dataset=ROWS)
    with watched(model) as types:
        trainer.evaluate() if evaluate else trainer.train()
    assert all(getattr(arguments, name) is value for name, value in asked.items())
    return types[-1]


def accelerate() -> str:
    """Return what accelerate computes in."""
    AcceleratorState._reset_state(True)
    model = make()
    prepared = Accelerator(mixed_precision="bf16", cpu=True).prepare(model)
    with watched(model) as types:
        prepared(INPUT).sum().backward()
    return types[-1]


ASKS: dict[str, Callable[[], str]] = {
    "autocast": lambda: compute(torch.autocast("cpu", dtype=torch.bfloat16), make()),
    "its default": lambda: compute(torch.autocast("cpu"), make()),
    "its older name": lambda: compute(torch.cpu.amp.autocast(), make()),
    "accelerate": accelerate,
    "Trainer": lambda: train(False, bf16=True),
    "evaluation": lambda: train(True, bf16_full_eval=True, use_cpu=True),
    "FSDP": lambda: str(MixedPrecision(param_dtype=torch.bfloat16).param_dtype),
    # What is left alone: weights in bfloat16, and another type.
    "weights": lambda: compute(torch.autocast("cpu", dtype=torch.bfloat16), make().bfloat16()),
    "float16": lambda: str(torch.autocast("cpu", dtype=torch.float16).fast_dtype),
}


def main(*words: str) -> None:
    """Ask as this rank."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if words == ("LAST",) and rank == size - 1:
        vars(sys.modules["multinode_image.hooks.compute.bf16_units"])["read_units"] = frozenset
    if size > 1:
        dist.init_process_group("gloo")
    answers = {name: ask() for name, ask in ASKS.items()}
    model = make().bfloat16()
    model(INPUT.bfloat16()).sum().backward()
    torch.optim.SGD(model.parameters()).step()  # what weights cost is said at a step
    everybody: list[Any] = [answers]
    if size > 1:
        everybody = [None] * size
        dist.all_gather_object(everybody, answers)
    if rank == 0:
        print(json.dumps(everybody), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
