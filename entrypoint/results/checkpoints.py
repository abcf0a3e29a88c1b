"""The checkpoints of the Trainer in a directory, and the last one from which it can go on.

It writes trainer_state.json last (transformers/trainer.py, _save_checkpoint), so a checkpoint without that was not
written to its end. A power failure leaves files without content.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

PREFIX, STATE = "checkpoint-", "trainer_state.json"
# The state of the optimizer, a file or a directory of FSDP's; the Trainer reads neither of the two where one is
# missing. DeepSpeed has a directory of its own for both.
OPTIMIZER, SCHEDULER, DEEPSPEED = "optimizer*", "scheduler.pt", "global_step*"
# What the Trainer loads when it goes on (transformers/trainer.py, _load_from_checkpoint, _load_rng_state, ...).
MODEL = ("model*", "pytorch_model*", "*adapter_*", "*/adapter_*", "config.json")
LOADED = (*MODEL, OPTIMIZER, "scheduler*", "scaler*", "rng_state*")


def digest_state(directory: str, step: int) -> str:
    """Return a digest of what the Trainer says in a checkpoint: its step, and each loss until then; empty for none."""
    try:
        return f"{crc32(Path(directory, f'{PREFIX}{step}', STATE).read_bytes()):08x}"
    except OSError:
        return ""


def list_steps(directory: str) -> list[int]:
    """List the steps of all checkpoints, complete or not, the last one first."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    found = (name[len(PREFIX) :] for name in names if name.startswith(PREFIX) and os.path.isdir(f"{directory}/{name}"))
    return sorted((int(step) for step in found if step.isdecimal() and str(int(step)) == step), reverse=True)


def find_last(directory: str, before: Mapping[str, str]) -> tuple[int | None, list[str]]:
    """Return the step of the last checkpoint from which the Trainer can go on, and what is wrong with those after it.

    before: digests of those that were there before the run began, and are not its own, by the step.
    """
    faults: list[str] = []
    for step in list_steps(directory):
        if str(step) in before and before[str(step)] == digest_state(directory, step):
            continue
        fault = find_fault(Path(directory, f"{PREFIX}{step}"), step)
        if fault is None:
            return step, faults
        faults.append(f"{PREFIX}{step} {fault}")
    return None, faults


def find_fault(place: Path, step: int) -> str | None:
    """Return why the Trainer cannot go on from a checkpoint, in words that follow its name; None if it can.

    Without a state of the optimizer it would go on, with a new one at the full learning rate (--save_only_model).
    """
    if read_object(place / STATE).get("global_step") != step:
        return f"is not complete ({STATE})"
    files = (path for pattern in LOADED for path in sorted(place.glob(pattern)) if path.is_file())
    empty = next((path.name for path in files if not path.stat().st_size), None)
    if empty is not None:
        return f"is damaged ({empty} is empty)"
    has_optimizer = (place / SCHEDULER).is_file() and any(place.glob(OPTIMIZER))
    return None if has_optimizer or any(place.glob(DEEPSPEED)) else "has no state of the optimizer"


def read_object(path: Path) -> dict[str, object]:
    """Return the object in a file of JSON; empty where none can be read."""
    try:
        found = json.loads(path.read_bytes()) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
