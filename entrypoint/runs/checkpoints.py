"""The checkpoints of the Trainer in a directory, and the one that a run goes on from."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

PREFIX = "checkpoint-"
# Written last, apart from what each rank writes for itself (transformers/trainer.py, _save_checkpoint); a model that is
# loaded needs one of the forms of its weights.
STATE = "trainer_state.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin")
INDEX = ".index.json"


class Checkpoint(NamedTuple):
    """A checkpoint, the step it was written at, and the time of its state by the clock of the file system."""

    name: str
    step: int
    written: int


def list_checkpoints(directory: str) -> list[Checkpoint]:
    """List the complete checkpoints in a directory, the oldest first; a half-written one is passed over."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    found = (read_checkpoint(directory, name) for name in names if name.startswith(PREFIX))
    return sorted((each for each in found if each is not None), key=lambda each: each.step)


def read_checkpoint(directory: str, name: str) -> Checkpoint | None:
    """Return a checkpoint; None for one that was not written to its end, and for what is none."""
    step, place = name[len(PREFIX) :], f"{directory}/{name}"
    try:
        with open(f"{place}/{STATE}", encoding="utf-8") as file:
            state = json.load(file)
        written = os.stat(f"{place}/{STATE}").st_mtime_ns
        complete = isinstance(state, dict) and state.get("global_step") == int(step) and has_weights(place)
    except (OSError, ValueError, RecursionError):
        return None
    return Checkpoint(name, int(step), written) if complete else None


def has_weights(place: str) -> bool:
    """Return whether the weights of a model are there: in one file, or all those of an index."""
    for name in WEIGHTS:
        if os.path.isfile(f"{place}/{name}"):
            return True
        if os.path.isfile(f"{place}/{name}{INDEX}"):
            with open(f"{place}/{name}{INDEX}", encoding="utf-8") as file:
                index = json.load(file)
            parts = index.get("weight_map") if isinstance(index, dict) else None
            return isinstance(parts, dict) and all(os.path.isfile(f"{place}/{part}") for part in parts.values())
    return False
