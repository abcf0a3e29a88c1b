"""Stands where the real run_qa.py stands: parses the arguments as it does, and says in what world it runs."""

import json
import os
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from transformers import HfArgumentParser, TrainingArguments


@dataclass
class ModelArguments:
    """The arguments of the real script that its defaults in the guide use."""

    model_name_or_path: str = field(default="")
    dataset_name: str = field(default="")
    max_seq_length: int = field(default=0)
    doc_stride: int = field(default=0)
    pad_to_max_length: bool = field(default=True)


def main() -> None:
    """Parse, and print what came out as one JSON object."""
    model, training = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=training.bf16):
        computed = torch.nn.functional.linear(torch.ones(1, 1), torch.ones(1, 1))
    print(
        json.dumps(
            {
                "model": model.model_name_or_path,
                "dataset": model.dataset_name,
                "max_seq_length": model.max_seq_length,
                "bf16": training.bf16,
                "computes": str(computed.dtype),
                "batch": training.per_device_train_batch_size,
                "learning_rate": training.learning_rate,
                "output_dir": training.output_dir,
                "world_size": training.world_size,
                "device": str(training.device),
                "threads": torch.get_num_threads(),
                "asked_threads": os.environ.get("OMP_NUM_THREADS"),
                "rank": dist.get_rank() if dist.is_initialized() else 0,
                "backend": str(dist.get_backend()) if dist.is_initialized() else "none",
            }
        )
    )


if __name__ == "__main__":
    main()
