"""Directories of runs, as the Trainer leaves them."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

# A file of safetensors with nothing in it: the length of its header, and that.
NO_TENSORS = b"\x02" + b"\0" * 7 + b"{}"


def archive() -> bytes:
    """Return a file as torch.save writes it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("archive/data.pkl", b"x" * 1000)
    return made.getvalue()


def checkpoint(directory: Path, step: int, *, state: object = None, weights: str | None = "model.safetensors") -> Path:
    """Write a checkpoint; without a state it is half-written."""
    place = directory / f"checkpoint-{step}"
    place.mkdir(parents=True)
    if weights:
        (place / weights).write_bytes(NO_TENSORS)
    for name in ("optimizer.pt", "scheduler.pt"):
        (place / name).write_bytes(archive())
    (place / "trainer_state.json").write_text(json.dumps({"global_step": step} if state is None else state))
    os.utime(place / "trainer_state.json", ns=(step, step))
    return place
