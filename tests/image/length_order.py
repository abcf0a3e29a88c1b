"""Train on examples of many lengths, put together by length, and print what each epoch had: JSON by rank 0.

main(OUTPUT, [CHECKPOINT])    CHECKPOINT: what it goes on from, in the middle of an epoch
"""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

COUNT, EPOCHS, BATCH = 48, 3, 4  # examples, epochs, examples of a rank's step
GROUPED: dict[str, Any] = (
    {"train_sampling_strategy": "group_by_length"}
    if hasattr(TrainingArguments, "train_sampling_strategy")
    else {"group_by_length": True}
)
draw = torch.Generator().manual_seed(0)
ROWS = [
    {"input_ids": [3] * int(torch.randint(4, 30, (1,), generator=draw)), "labels": 0, "index": i} for i in range(COUNT)
]
taken: dict[int, list[int]] = {}  # epoch -> the examples of this rank's steps, in their order


class Epochs(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Keeps the number of the epoch."""

    now = 0

    def on_epoch_begin(self, _: Any, state: Any, control: Any, **more: Any) -> None:
        self.now = int(state.epoch or 0)


class Noticing(Trainer):  # type: ignore[misc,unused-ignore]
    """Keeps which examples a step has: batches are made ahead of it."""

    def training_step(self, model: Any, inputs: Any, *words: Any, **options: Any) -> Any:
        taken.setdefault(epochs.now, []).extend(inputs.pop("index").tolist())
        return super().training_step(model, inputs, *words, **options)


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    longest = max(len(row["input_ids"]) for row in rows)
    words = torch.tensor([row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows])
    numbers = {name: torch.tensor([row[name] for row in rows]) for name in ("labels", "index")}
    return {"input_ids": words, "attention_mask": words.ne(0).long(), **numbers}


epochs = Epochs()


def main(output: str, checkpoint: str | None = None) -> None:
    """Train as one of the ranks; rank 0 prints what all have had."""
    config = BertConfig(
        vocab_size=9, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=2
    )
    arguments = TrainingArguments(
        output, use_cpu=True, per_device_train_batch_size=BATCH, num_train_epochs=EPOCHS, save_steps=1,
        disable_tqdm=True, report_to="none", remove_unused_columns=False, logging_strategy="no", **GROUPED,
    )  # fmt: skip
    torch.manual_seed(0)
    model = BertForSequenceClassification(config)
    trainer = Noticing(model, arguments, train_dataset=ROWS, data_collator=collate, callbacks=[epochs])
    trainer.train(resume_from_checkpoint=checkpoint)
    everybody: list[Any] = [taken]
    if dist.is_initialized():
        everybody = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, taken)
    if trainer.is_world_process_zero():
        print(json.dumps(everybody), flush=True)
