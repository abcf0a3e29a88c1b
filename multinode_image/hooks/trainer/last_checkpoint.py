"""Let a Trainer that is told to end by SIGTERM write one more checkpoint, on all ranks after the same step.

Whoever takes a node away (a spot market, a drain, `docker stop`, a quota) gives half a minute or less, and tells the
processes of that node alone. At the end of a step each rank learns whether any has been told. All of them save then,
and end with the code of a process that SIGTERM has ended: with 0 they would be done, and nobody would start them again.

A Trainer that saves nothing (`save_strategy="no"`) ends at once, as before, and so does a script before its first step.
A handler of the script's own stays, and that of `enable_jit_checkpoint` (transformers 5), which does this for one rank.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any

import torch
import torch.distributed as dist
from transformers.trainer_callback import TrainerCallback

CODE = 128 + signal.SIGTERM
TOLD = "multinode: told to end (SIGTERM): a checkpoint is written at the end of this step\n"


class LastCheckpoint(TrainerCallback):
    """What a Trainer asks at each of its steps."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Listen for SIGTERM, where nobody else does."""
        self.told = self.ends = self.listens = False
        self.saves = saves(args)
        if self.saves and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            with contextlib.suppress(ValueError):  # a Trainer in another thread than the first
                signal.signal(signal.SIGTERM, self.tell)
                self.listens = True

    def tell(self, *_: object) -> None:
        """Remember that this rank has been told, and say it once for a node."""
        if not self.told and os.environ.get("LOCAL_RANK", "0") == "0":
            os.write(2, TOLD.encode())
        self.told = True

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Let all ranks save now if one has been told."""
        if self.saves and is_any(self.told, args):
            control.should_save = control.should_training_stop = self.ends = True
            control.should_evaluate = False

    def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """End where the last checkpoint is written, and all who want to know of it have been told."""
        if self.ends:
            end_together(args, state)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Let SIGTERM end the script again."""
        if self.listens:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.on_epoch_end(args, state, control)


def saves(args: Any) -> bool:
    """Return whether a training writes checkpoints, and leaves the last one to us; the same on all ranks."""
    strategy = getattr(args.save_strategy, "value", args.save_strategy)
    return strategy != "no" and not getattr(args, "enable_jit_checkpoint", False)


def is_any(told: bool, args: Any) -> bool:
    """Return whether a rank of this training has been told; all of its ranks ask at the same step."""
    if args.world_size == 1:
        return told
    flag = torch.tensor([int(told)])
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag)


def end_together(args: Any, state: Any) -> None:
    """End this rank once all have written their part: what starts ranks ends the others with the first."""
    if args.world_size > 1:
        dist.barrier()
    if args.process_index == 0:
        said = f"multinode: saved at step {state.global_step}; the same command goes on from there"
        print(said, file=sys.stderr, flush=True)
    sys.exit(CODE)


def watch_end(module: Any) -> None:
    """Let every Trainer save once more where a rank has been told to end; module: transformers.trainer."""
    module.DEFAULT_CALLBACKS.append(LastCheckpoint)
