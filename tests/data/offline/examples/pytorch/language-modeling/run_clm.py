"""Stands where run_clm.py stands: trains a model of one layer with the Trainer, and may die on the way."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import HfArgumentParser, Trainer, TrainerCallback, TrainingArguments


@dataclass
class Arguments:
    """The arguments of the real script that its defaults use."""

    model_name_or_path: str = field(default="")
    dataset_name: str = field(default="")
    dataset_config_name: str = field(default="")


class Model(torch.nn.Module):
    """One number, which is to become the mean of the data."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(torch.zeros(1))

    def forward(self, number: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        return {"loss": ((number - self.mean) ** 2).mean()}


class Death(TrainerCallback):
    """Says where the training begins, and dies once at the step in DIE_AT; STEP_SECONDS makes its steps long.

    SLOW_RANK is the only rank whose steps are long, where it is set.
    """

    def on_train_begin(self, args, state, control, **_) -> None:
        print(f"rank {args.process_index} begins at step {state.global_step}", flush=True)

    def on_step_end(self, args, state, control, **_) -> None:
        if os.environ.get("SLOW_RANK") in (None, str(args.process_index)):
            time.sleep(float(os.environ.get("STEP_SECONDS", 0)))
        mark = Path(args.output_dir, "died")
        if state.global_step == int(os.environ.get("DIE_AT", -1)) and args.process_index == 0 and not mark.exists():
            mark.touch()
            os._exit(9)


def main() -> None:
    """Train as the real script does: from the checkpoint that was given."""
    _, training = HfArgumentParser((Arguments, TrainingArguments)).parse_args_into_dataclasses()
    data = [{"number": torch.ones(1), "labels": torch.ones(1)} for _ in range(64)]
    trainer = Trainer(model=Model(), args=training, train_dataset=data, callbacks=[Death()])
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
    print(f"rank {training.process_index} ends at step {trainer.state.global_step}", flush=True)


if __name__ == "__main__":
    main()
