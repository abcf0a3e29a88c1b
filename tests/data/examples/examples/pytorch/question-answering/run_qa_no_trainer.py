"""Stands where the real run_qa_no_trainer.py stands: parses as it does, and says what accelerate found."""

import argparse
import json

from accelerate import Accelerator


def main() -> None:
    """Parse, and print the world and the precision as one JSON object."""
    parser = argparse.ArgumentParser()
    for name in ("model_name_or_path", "dataset_name", "output_dir"):
        parser.add_argument(f"--{name}")
    for name in ("max_seq_length", "doc_stride", "per_device_train_batch_size", "num_train_epochs"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--learning_rate", type=float)
    args = parser.parse_args()
    accelerator = Accelerator()
    if accelerator.is_main_process:
        world = {"world_size": accelerator.num_processes, "device": accelerator.device.type}
        print(json.dumps({**world, "precision": accelerator.mixed_precision, "output_dir": args.output_dir}))
    accelerator.wait_for_everyone()  # as training does: a rank that ends while another still connects ends both
    accelerator.end_training()


if __name__ == "__main__":
    main()
