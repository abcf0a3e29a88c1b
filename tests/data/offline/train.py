"""A script as users write it: trains a model of one number with the Trainer, and may die on the way."""

import argparse
import os
import time
from pathlib import Path

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments


class Model(torch.nn.Module):
    """One number, which is to become the mean of the data."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(torch.zeros(1))

    def forward(self, number: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        return {"loss": ((number - self.mean) ** 2).mean()}


class Death(TrainerCallback):
    """Says where the training begins, and dies once at the step in DIE_AT; STEP_SECONDS makes its steps long."""

    def on_train_begin(self, args, state, control, **_) -> None:
        print(f"rank {args.process_index} begins at step {state.global_step}", flush=True)

    def on_step_end(self, args, state, control, **_) -> None:
        time.sleep(float(os.environ.get("STEP_SECONDS", 0)))
        mark = Path(args.output_dir, "died")
        if state.global_step == int(os.environ.get("DIE_AT", -1)) and args.process_index == 0 and not mark.exists():
            mark.touch()
            os._exit(9)


parser = argparse.ArgumentParser()
for name, kind in (("output_dir", str), ("max_steps", int), ("save_steps", int)):
    parser.add_argument(f"--{name}", type=kind)
parser.add_argument("--dataloader_num_workers", type=int, default=0)
arguments = TrainingArguments(**vars(parser.parse_args()), report_to="none", disable_tqdm=True)
data = [{"number": torch.ones(1), "labels": torch.ones(1)} for _ in range(64)]
trainer = Trainer(model=Model(), args=arguments, train_dataset=data, callbacks=[Death()])
trainer.train(resume_from_checkpoint=os.environ.get("MULTINODE_RESUME") or None)
print(f"rank {arguments.process_index} ends at step {trainer.state.global_step}", flush=True)
