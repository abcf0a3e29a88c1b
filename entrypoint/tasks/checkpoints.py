"""The checkpoints of the Trainer in a directory, and the last one from which it can go on.

It writes trainer_state.json last (transformers/trainer.py, _save_checkpoint), so a checkpoint without that was not
written to its end. Files that are empty or cut, as a power failure leaves them, are found by what has to be at their
end; no more is read of them, for a checkpoint may have hundreds of gigabytes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import is_zipfile
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX, STATE = "checkpoint-", "trainer_state.json"
# One of these is there if the weights are: in one file, in parts with an index, as an adapter that may have a directory
# of its own name (PEFT), or in a directory of DeepSpeed's, which has the state of the optimizer too.
DEEPSPEED = "global_step*"
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "adapter_model.*", "*/adapter_model.*", "*.index.json", DEEPSPEED)
# A file, or a directory of FSDP's; the Trainer reads neither of the two where one is missing.
OPTIMIZER, SCHEDULER = "optimizer*", "scheduler.pt"
# What the Trainer loads when it goes on (transformers/trainer.py, _load_from_checkpoint, _load_rng_state, ...).
MODEL = ("model*", "pytorch_model*", "*adapter_*", "*/adapter_*", "config.json")
LOADED = (*MODEL, OPTIMIZER, "scheduler*", "scaler*", "rng_state*")
# Safetensors refuses a longer header (safetensors/src/tensor.rs, MAX_HEADER_SIZE).
LONGEST = 100_000_000


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
    gap = STATE if read_object(place / STATE).get("global_step") != step else find_missing_weights(place)
    if gap is not None:
        return f"is not complete ({gap})"
    damaged = next((path.name for pattern in LOADED for path in sorted(place.glob(pattern)) if is_damaged(path)), None)
    if damaged is not None:
        return f"is damaged ({damaged})"
    has_optimizer = (place / SCHEDULER).is_file() and any(place.glob(OPTIMIZER))
    return None if has_optimizer or any(place.glob(DEEPSPEED)) else "has no state of the optimizer"


def find_missing_weights(place: Path) -> str | None:
    """Return a missing file of a model's weights; None if all are there."""
    for index in place.glob("*.index.json"):
        parts = read_object(index).get("weight_map")
        if not isinstance(parts, dict):
            return index.name
        missing = [str(part) for part in parts.values() if not (place / str(part)).is_file()]
        if missing:
            return missing[0]
    return None if any(any(place.glob(pattern)) for pattern in WEIGHTS) else WEIGHTS[0]


def is_damaged(path: Path) -> bool:
    """Return whether a file does not end as its kind does; one that may not be read is the Trainer's to report."""
    if not path.is_file() or not os.access(path, os.R_OK):
        return False
    if path.suffix == ".safetensors":
        return not has_tensors(path)
    if path.suffix == ".json":
        return not read_object(path)
    return path.suffix in (".pt", ".pth", ".bin") and not is_zipfile(path)


def has_tensors(path: Path) -> bool:
    """Return whether a file of safetensors ends where its header says."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length <= LONGEST else {}
        ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
        return 8 + length + max(ends, default=0) == path.stat().st_size
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False


def read_object(path: Path) -> dict[str, object]:
    """Return the object in a file of JSON; empty where none can be read."""
    try:
        found = json.loads(path.read_bytes()) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
