"""Run a script of the Trainer that says nothing of checkpoints: main(DIE_AT, OUTPUT), where rank 0 dies at a step."""

from __future__ import annotations

import os
import runpy
import sys

from transformers import Trainer

SCRIPT, KEPT = "/workspace/train.py", (Trainer,)  # imported before the ranks are forked


def main(die_at: str, output: str) -> None:
    """Be a rank of it; at step -1 none dies."""
    os.environ["DIE_AT"] = die_at
    sys.argv = [SCRIPT, "--max_steps", "8", "--save_steps", "2", "--output_dir", output]
    runpy.run_path(SCRIPT, run_name="__main__")
