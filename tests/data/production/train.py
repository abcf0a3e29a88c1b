"""The script of docs/production.md: it trains a model of one number, and without an end where nodes are taken away."""

import os
import time

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

IS_SHORT = "WANDB_MODE" in os.environ or "JOB_COMPLETION_INDEX" in os.environ


class Model(torch.nn.Module):
    """One number, which is to become the mean of the data."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(torch.zeros(1))

    def forward(self, number: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        return {"loss": ((number - self.mean) ** 2).mean()}


class Begin(TrainerCallback):
    """Says where the training begins, and makes its steps long enough to be seen."""

    def on_train_begin(self, args, state, control, **_) -> None:
        print(f"rank {args.process_index} begins at step {state.global_step}", flush=True)

    def on_step_end(self, args, state, control, **_) -> None:
        time.sleep(0.05)


rate = 1e-2
if "JOB_COMPLETION_INDEX" in os.environ:
    rate = [1e-3, 1e-2, 1e-1][int(os.environ["JOB_COMPLETION_INDEX"])]
args = TrainingArguments(
    os.environ.get("MULTINODE_OUTPUT", "/workspace/output"), max_steps=20 if IS_SHORT else 10**8, save_steps=10**8,
    learning_rate=rate, logging_steps=5, disable_tqdm=True,
    report_to=["tensorboard", "wandb"] if "WANDB_MODE" in os.environ else ["tensorboard"],
)  # fmt: skip
data = [{"number": torch.ones(1), "labels": torch.ones(1)} for _ in range(64)]
trainer = Trainer(Model(), args, train_dataset=data, callbacks=[Begin()])
trainer.train(resume_from_checkpoint=os.environ.get("MULTINODE_RESUME") or None)
trainer.save_state()
