"""The Trainer's states in a directory for results, and what our one says besides of each start of a training.

The Trainer writes its state into each checkpoint, and a script into the directory itself (trainer_state.json). Rank 0
keeps it in our directory, too, between checkpoints (hooks/trainer/kept_state.py), with the starts under a key of ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from multinode_image.reading import as_list
from multinode_image.results.checkpoints import read_object

# What a row of the log has since the row before (hooks/trainer/speed.py): examples of all ranks in a second, and for
# which part of the time gradients were waited for, in per cent.
SPEED, WAITING = "samples_per_second", "waiting"
# The key of the starts, how many of them are kept, and letters of what one says of itself.
STARTS, MOST_STARTS, LETTERS = "multinode_starts", 1000, 100
# What a start says of itself: when it began, and at which step; what it trains; the time of its last step; the seconds
# since its first one, the steps in them and what was waited of them; and the most memory of rank 0, in bytes.
FACTS = (
    "began", "step", "script", "model", "weights", "ranks", "batch", "bf16", "gradients", "threads", "torch",
    "transformers", "time", "seconds", "steps", "waited", "peak",
)  # fmt: skip

Start = dict[str, object]


def read_state(path: str) -> Mapping[str, object]:
    """Return a state, or another object of JSON that a training has written; empty where none can be read."""
    with contextlib.suppress(PermissionError):
        return read_object(Path(path))
    return {}


def read_starts(state: Mapping[str, object]) -> list[Start]:
    """Return what the last starts in a state say of themselves, with short texts."""
    return [choose_facts(row) for row in as_list(state.get(STARTS))[-MOST_STARTS:] if isinstance(row, dict)]


def choose_facts(row: Mapping[str, object]) -> Start:
    """Return what is known of a start: numbers, and texts for all else."""
    facts = {name: row[name] for name in FACTS if row.get(name) is not None}
    return {name: value if isinstance(value, (int, float)) else str(value)[:LETTERS] for name, value in facts.items()}
