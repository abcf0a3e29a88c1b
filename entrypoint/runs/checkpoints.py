"""The checkpoints of the Trainer in a directory, and the one that a run goes on from."""

from __future__ import annotations

import json
import os
from typing import NamedTuple
from zlib import crc32

PREFIX = "checkpoint-"
# Written last, apart from what each rank writes for itself (transformers/trainer.py, _save_checkpoint); a model that is
# loaded needs one of the forms of its weights.
STATE = "trainer_state.json"
OF_ADAPTER = ("adapter_model.safetensors", "adapter_model.bin")
WEIGHTS = ("model.safetensors", "pytorch_model.bin", *OF_ADAPTER)
INDEX = ".index.json"
# DeepSpeed writes all that each rank has of the model and the optimizer into a directory global_step4; with ZeRO-3 the
# weights are nowhere else (transformers/integrations/deepspeed.py, deepspeed_load_checkpoint).
OF_DEEPSPEED = "global_step"


class Checkpoint(NamedTuple):
    """A checkpoint, the step it was written at, the time of its state by the clock of the file system, and its digest.

    The digest is empty in the record of an older release.
    """

    name: str
    step: int
    written: int
    digest: str = ""


def list_checkpoints(directory: str) -> list[Checkpoint]:
    """List the complete checkpoints in a directory, the oldest first; a half-written one is passed over."""
    found = (read_checkpoint(directory, name) for name in list_names(directory))
    return sorted((each for each in found if each is not None), key=lambda each: each.step)


def list_names(directory: str) -> list[str]:
    """List the names of checkpoints in a directory, complete or not."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return [name for name in names if read_step(name) >= 0 and os.path.isdir(f"{directory}/{name}")]


def read_step(name: str) -> int:
    """Return the step in the name of a checkpoint; -1 for another name."""
    step = name[len(PREFIX) :]
    return int(step) if name.startswith(PREFIX) and step.isdecimal() else -1


def read_checkpoint(directory: str, name: str) -> Checkpoint | None:
    """Return a checkpoint; None for one that is not complete."""
    place, step = f"{directory}/{name}", read_step(name)
    try:
        written = os.stat(f"{place}/{STATE}").st_mtime_ns
        with open(f"{place}/{STATE}", "rb") as file:
            digest = f"{crc32(file.read()):08x}"
    except OSError:
        return None
    return Checkpoint(name, step, written, digest) if find_gap(place, step) is None else None


def find_gap(place: str, step: int) -> str | None:
    """Return the file that is missing or half-written in a checkpoint; None if the checkpoint is complete."""
    state = read_object(f"{place}/{STATE}")
    return find_missing_weights(place) if state is not None and state.get("global_step") == step else STATE


def find_missing_weights(place: str) -> str | None:
    """Return a missing file of a model's weights, which are one file or all of an index; None if all are there."""
    for name in WEIGHTS:
        if os.path.isfile(f"{place}/{name}"):
            return None
        if os.path.isfile(f"{place}/{name}{INDEX}"):
            parts = (read_object(f"{place}/{name}{INDEX}") or {}).get("weight_map")
            if not isinstance(parts, dict):
                return f"{name}{INDEX}"
            return next((str(part) for part in parts.values() if not os.path.isfile(f"{place}/{part}")), None)
    return None if has_deepspeed(place) or list_adapters(place) else WEIGHTS[0]


def has_deepspeed(place: str) -> bool:
    """Return whether DeepSpeed has written the model and the optimizer of a checkpoint."""
    return any(name.startswith(OF_DEEPSPEED) and os.path.isdir(f"{place}/{name}") for name in os.listdir(place))


def list_adapters(place: str) -> list[str]:
    """List the directories in a checkpoint that have an adapter, as PEFT writes one that has a name of its own.

    The Trainer loads those where there are no weights above them (transformers/trainer.py, _load_from_checkpoint).
    """
    names = sorted(os.listdir(place))
    return [name for name in names if any(os.path.isfile(f"{place}/{name}/{each}") for each in OF_ADAPTER)]


def read_object(path: str) -> dict[str, object] | None:
    """Return the object in a file of JSON; None where none can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
