"""Train with a Trainer on what each rank has: same.py HOW.

HOW: `well`, a `split` without a seed, other `rows` on rank 1, or the `best` model of steps whose loss goes up and down.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import torch
from torch import nn
from torch.utils.data import random_split
from transformers import Trainer, TrainingArguments

HOW, RANK = sys.argv[1], int(os.environ["RANK"])


class Net(nn.Module):
    """A linear model of three classes."""

    def __init__(self) -> None:
        """Begin with the same weights on all ranks."""
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        """Return the loss and the logits."""
        logits = self.layer(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def draw(count: int, seed: int) -> list[dict[str, Any]]:
    """Return some rows."""
    random = torch.Generator().manual_seed(seed)
    return [
        {"x": torch.randn(4, generator=random), "labels": torch.randint(0, 3, (), generator=random)}
        for _ in range(count)
    ]


train, test = draw(56 if HOW == "rows" and RANK else 64, 1), draw(16, 2)
if HOW == "split":
    train, test = map(list, random_split(train, [48, 16]))
best: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 3, "save_steps": 3, "load_best_model_at_end": True}
options = best if HOW == "best" else {"save_strategy": "no"}
fixed: dict[str, Any] = {"learning_rate": 2.0, "lr_scheduler_type": "constant", "disable_tqdm": True, "report_to": []}
place = tempfile.mkdtemp()  # a disk of this node's own
args = TrainingArguments(place, per_device_train_batch_size=4, max_steps=12, **fixed, **options)
trainer = Trainer(Net(), args, train_dataset=train, eval_dataset=test)
trainer.train()
weights = trainer.accelerator.unwrap_model(trainer.model).layer.weight
print(f"weights {float(weights.detach().double().sum()):.6f}", flush=True)
