"""Train a model of DistilBERT's size in each of some ways in turn, a step each, and print the seconds of every step.

So a machine that becomes slower meanwhile favours none of them. It runs with the image's Python, in all ranks. The last
line of rank 0 on stdout is JSON: {"apart": [seconds, ...], "default": [...]}, of `apart` the means of all ranks.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import time
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
sys.path.insert(0, "/opt/multinode/lib")

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import DistilBertConfig, DistilBertForQuestionAnswering

from multinode_image.programs.leave import leave

SEED = 11
VARIABLE = "MULTINODE_GRADIENTS"
APART, DEFAULT = "apart", "default"


def read(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("ways", nargs="+")
    return parser.parse_args(argv)


def wrap(model: Any, way: str) -> Any:
    """Return a copy of a model that trains in a way: apart, or by a value of VARIABLE."""
    copied = copy.deepcopy(model)
    os.environ[VARIABLE] = "" if way == DEFAULT else way
    return copied if way == APART else DistributedDataParallel(copied)


def optimize(model: Any, states: list[dict[str, Any]]) -> Any:
    """Return the Trainer's optimizer; states: what all models share, so that each needs no memory for it."""
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-6, fused=True)
    optimizer.state.update(zip(parameters, states, strict=True))
    return optimizer


def step(model: Any, optimizer: Any, words: Any, options: argparse.Namespace) -> float:
    """Return the seconds of a step as the Trainer makes it."""
    places = torch.arange(options.batch) % options.length
    dist.barrier()
    began = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=options.dtype == "bfloat16"):
        mask = torch.ones_like(words)
        loss = model(input_ids=words, attention_mask=mask, start_positions=places, end_positions=places).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - began


def main(argv: list[str]) -> None:
    """Train in all ways, print, and end all ranks together."""
    options = read(argv)
    dist.init_process_group("gloo")
    torch.manual_seed(SEED)
    model = DistilBertForQuestionAnswering(DistilBertConfig(n_layers=options.layers))
    states = [
        {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}
        for parameter in model.parameters()
    ]
    models = {way: wrap(model, way) for way in options.ways}
    optimizers = {way: optimize(parameter, states) for way, parameter in models.items()}
    seconds: dict[str, list[float]] = {way: [] for way in options.ways}
    random = torch.Generator().manual_seed(SEED + dist.get_rank())
    for number in range(options.steps):
        words = torch.randint(1000, 30000, (options.batch, options.length), generator=random)
        for way in options.ways[:: 1 if number % 2 else -1]:
            seconds[way].append(step(models[way], optimizers[way], words, options))
    if APART in seconds:
        means = torch.tensor(seconds[APART])
        dist.all_reduce(means)
        seconds[APART] = (means / dist.get_world_size()).tolist()
    if dist.get_rank() == 0:
        print(json.dumps(seconds), flush=True)
    leave(0)


if __name__ == "__main__":
    main(sys.argv[1:])
