"""Train a model with random weights in a container, and print the seconds of every step; no network is needed.

It runs with the image's Python: torch and transformers are there, nothing of this repository but the entrypoint's jobs.
The last line on stdout is JSON: {"steps": [seconds, ...], "world": ranks, "threads": of torch}
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
sys.path.insert(0, "/opt/multinode/lib")

import torch
from torch.utils.data import Dataset
from transformers import DistilBertConfig, DistilBertForQuestionAnswering, Trainer, TrainerCallback, TrainingArguments

from multinode_image.programs.leave import leave

SEED = 11


class Words(Dataset[dict[str, torch.Tensor]]):
    """Random words; where their answers begin and end means nothing, for only the seconds are asked for."""

    def __init__(self, count: int, length: int) -> None:
        """Draw all of them at once."""
        random = torch.Generator().manual_seed(SEED)
        self.words = torch.randint(1000, 30000, (count, length), generator=random)
        self.length = length

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return a row as the model takes it."""
        place = torch.tensor(index % self.length)
        mask = torch.ones(self.length, dtype=torch.long)
        return {
            "input_ids": self.words[index],
            "attention_mask": mask,
            "start_positions": place,
            "end_positions": place,
        }


class Clock(TrainerCallback):
    """Keep the seconds of every step, the reading of its batch left out."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self.began = 0.0
        self.steps: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self.began = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stop it."""
        self.steps.append(time.perf_counter() - self.began)


def read(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    return parser.parse_args(argv)


def prepare(options: argparse.Namespace) -> tuple[Any, Any]:
    """Return the model and its data."""
    torch.manual_seed(SEED)
    count = options.batch * options.steps * int(os.environ.get("WORLD_SIZE", "1"))
    return DistilBertForQuestionAnswering(DistilBertConfig()), Words(count, options.length)


def arguments(options: argparse.Namespace, output: str) -> TrainingArguments:
    """Return what the Trainer is told: what `smoke` tells it, with these sizes."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    same: dict[str, Any] = {"ddp_backend": options.backend} if world > 1 else {}
    return TrainingArguments(
        output, use_cpu=True, bf16=options.dtype == "bfloat16", max_steps=options.steps,
        per_device_train_batch_size=options.batch,
        learning_rate=3e-5, warmup_steps=10, seed=SEED, data_seed=SEED,
        save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True, dataloader_drop_last=True,
        dataloader_pin_memory=False, ddp_find_unused_parameters=False, **same,
    )  # fmt: skip


def main(argv: list[str]) -> None:
    """Train, print, and end all ranks together, as `smoke` does."""
    options = read(argv)
    with tempfile.TemporaryDirectory() as output:
        told = arguments(options, output)
        (model, data), clock = prepare(options), Clock()
        Trainer(model=model, args=told, train_dataset=data, callbacks=[clock]).train()
    answer = {"steps": clock.steps, "world": int(told.world_size), "threads": torch.get_num_threads()}
    print(json.dumps(answer), flush=True)
    leave(0)


if __name__ == "__main__":
    main(sys.argv[1:])
