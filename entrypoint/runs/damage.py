"""What is wrong with a checkpoint: files that are cut or empty, as a power failure or a full disk of a server leaves
them, and a state of the optimizer that nobody wrote.

Only the beginning and the end of each file are read: a checkpoint may have hundreds of gigabytes.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from entrypoint.runs.checkpoints import has_deepspeed, list_adapters

if TYPE_CHECKING:
    from collections.abc import Callable

# What the Trainer loads when it goes on (transformers/trainer.py, _load_from_checkpoint, _load_optimizer_and_scheduler,
# _load_rng_state): forms of the weights in any number of parts, what torch.save writes, and the configuration of the
# model, or of an adapter (peft/config.py, from_pretrained). Checkpoints.py reads the state of the Trainer and an index.
TENSORS = ".safetensors"
SAVED = (".pt", ".pth", ".bin")
LOADED = ("model", "pytorch_model", "adapter_model", "optimizer", "scheduler", "scaler", "rng_state")
CONFIGURED = ("config.json", "adapter_config.json")
# The length of the header is before it, in little-endian order. Safetensors itself refuses a header above MOST bytes
# (safetensors/src/tensor.rs, MAX_HEADER_SIZE); above READ the header is not read, to keep the memory small.
LENGTH, MOST, READ = 8, 100_000_000, 16_000_000
# Torch writes archives of zip without a comment since 1.6: a record at the very end says where their list of files is.
FIRST, LAST, LAST_SIZE = b"PK\3\4", b"PK\5\6", 22
# With --save_only_model the Trainer writes no state of the optimizer. It goes on from such a checkpoint all the same,
# with a learning rate and an optimizer that begin anew, and reads neither state where one of them is missing
# (transformers/trainer.py, _load_optimizer_and_scheduler). FSDP writes optimizer.bin or a directory optimizer_0
# (accelerate/utils/fsdp_utils.py, save_fsdp_optimizer).
OPTIMIZER, SCHEDULER = ("optimizer.pt", "optimizer.bin"), "scheduler.pt"
OF_FSDP = "optimizer"


def find_fault(place: str) -> str | None:
    """Return why the Trainer cannot go on from a checkpoint, in words that follow its name; None if it can."""
    damaged = find_damaged(place)
    if damaged is not None:
        return f"is damaged ({damaged})"
    return None if has_optimizer(place) else "has no state of the optimizer"


def has_optimizer(place: str) -> bool:
    """Return whether the Trainer finds a state of the optimizer and of the learning rate in a checkpoint."""
    if has_deepspeed(place):
        return True
    names = os.listdir(place)
    directories = [name for name in names if os.path.isdir(f"{place}/{name}")]
    files = {*names} - {*directories}
    return SCHEDULER in files and (not files.isdisjoint(OPTIMIZER) or any(OF_FSDP in name for name in directories))


def find_damaged(place: str) -> str | None:
    """Return the name of a file in a checkpoint that cannot be loaded because it is not whole; None if all are."""
    within = (f"{adapter}/{name}" for adapter in list_adapters(place) for name in os.listdir(f"{place}/{adapter}"))
    names = sorted(name for name in (*os.listdir(place), *within) if is_loaded(os.path.basename(name)))
    return next((name for name in names if is_damaged(f"{place}/{name}")), None)


def is_loaded(name: str) -> bool:
    """Return whether the Trainer loads a file of this name when it goes on."""
    return name.startswith(LOADED) or name in CONFIGURED


def is_damaged(path: str) -> bool:
    """Return whether a file that the Trainer loads is cut or empty; a file that may not be read counts as whole."""
    is_whole = choose_check(path)
    if is_whole is None or not os.path.isfile(path):
        return False
    try:
        return not is_whole(path)
    except PermissionError:  # the Trainer will say that
        return False
    except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return True


def choose_check(path: str) -> Callable[[str], bool] | None:
    """Return the function that tells whether a file of this name is whole; None where none can."""
    if path.endswith(TENSORS):
        return has_tensors
    if path.endswith(SAVED):
        return is_archive
    return is_configuration if os.path.basename(path) in CONFIGURED else None


def has_tensors(path: str) -> bool:
    """Return whether a file of safetensors ends where its header says."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(LENGTH), "little")
        if not 0 < length <= min(MOST, size - LENGTH):
            return False
        if length > READ:
            return True
        header = json.loads(file.read(length))
    ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
    return LENGTH + length + max(ends, default=0) == size


def is_archive(path: str) -> bool:
    """Return whether a file of torch has the beginning and the end of an archive."""
    with open(path, "rb") as file:
        if file.read(len(FIRST)) != FIRST or os.path.getsize(path) < LAST_SIZE:
            return False
        file.seek(-LAST_SIZE, os.SEEK_END)
        return file.read(len(LAST)) == LAST


def is_configuration(path: str) -> bool:
    """Return whether a file of JSON has an object."""
    with open(path, encoding="utf-8") as file:
        return isinstance(json.load(file), dict)
