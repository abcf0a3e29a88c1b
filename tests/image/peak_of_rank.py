"""What a rank runs in a container: a few steps of a model with random weights, and the most memory that it has taken.

    peak_of_rank.py --model_name_or_path DIRECTORY --per_device_train_batch_size 8 --max_seq_length 128 [--bf16]

DIRECTORY has a config.json; the class of the model is the first of its `architectures`. The last line on stdout is
JSON: {"peak": bytes of this rank (VmHWM), "weights": how many, "base": bytes before the model was made}
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import torch
import transformers
from transformers import AutoConfig, Trainer, TrainingArguments

STEPS = 2  # the moments of the optimizer are there in the second


def read_peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(rows["VmHWM"].split()[0]) << 10


class Words:
    """Random words of one length, with what the head of the model learns."""

    def __init__(self, config: Any, head: str, count: int, length: int) -> None:
        random = torch.Generator().manual_seed(1)
        self.words = torch.randint(10, config.vocab_size, (count, length), generator=random)
        self.head = head

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = {"input_ids": self.words[index], "attention_mask": torch.ones_like(self.words[index])}
        if self.head.endswith(("ForMaskedLM", "LMHeadModel", "ForCausalLM")):
            return {**row, "labels": self.words[index]}
        if self.head.endswith("ForQuestionAnswering"):
            return {**row, "start_positions": torch.tensor(1), "end_positions": torch.tensor(2)}
        return {**row, "labels": torch.tensor(0)}


parser = argparse.ArgumentParser()
parser.add_argument("--model_name_or_path")
parser.add_argument("--per_device_train_batch_size", type=int)
parser.add_argument("--max_seq_length", type=int)
parser.add_argument("--bf16", action="store_true")
options = parser.parse_args()

base = read_peak()
config = AutoConfig.from_pretrained(options.model_name_or_path)
kind = getattr(transformers, config.architectures[0])
model = kind(config)
count = options.per_device_train_batch_size * STEPS * int(os.environ.get("WORLD_SIZE", "1"))
with tempfile.TemporaryDirectory() as output:
    arguments = TrainingArguments(
        output, use_cpu=True, bf16=options.bf16, max_steps=STEPS, save_strategy="no", report_to="none",
        per_device_train_batch_size=options.per_device_train_batch_size, disable_tqdm=True,
    )  # fmt: skip
    data = Words(config, config.architectures[0], count, options.max_seq_length)
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train()
if arguments.process_index == 0:
    weights = sum(weight.numel() for weight in model.parameters())
    print(json.dumps({"peak": read_peak(), "weights": weights, "base": base}), flush=True)
