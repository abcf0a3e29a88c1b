"""The checkpoints of the Trainer in a directory, and the last one from which it can go on.

It writes trainer_state.json last (transformers/trainer.py, _save_checkpoint), so a checkpoint without that was not
written to its end. A power failure leaves files without content.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from multinode_image.machine.files import open_plain
from multinode_image.machine.places import explain_closed
from multinode_image.reading import parse_logged

PREFIX, STATE = "checkpoint-", "trainer_state.json"
# The state of the optimizer, a file or a directory of FSDP's; the Trainer reads neither of the two where one is
# missing. DeepSpeed has a directory of its own for both.
OPTIMIZER, SCHEDULER, DEEPSPEED = "optimizer*", "scheduler.pt", "global_step*"
# What the Trainer loads when it goes on (transformers/trainer.py, _load_from_checkpoint, _load_rng_state, ...).
MODEL = ("model*", "pytorch_model*", "*adapter_*", "*/adapter_*", "config.json")
LOADED = (*MODEL, OPTIMIZER, "scheduler*", "scaler*", "rng_state*")
# Nanoseconds to which every file system keeps the time of a file: FAT has every other second.
TICK = 2_000_000_000
# Bytes and values of a state, which has 200 bytes and six values for each time that the Trainer has logged.
MOST_STATE, VALUES = 64 << 20, 4_000_000


def digest_state(directory: str, step: int) -> str:
    """Return a digest of what the Trainer says in a checkpoint: its step, and each loss until then.

    Empty where it says nothing, or more than can be gone on from.
    """
    try:
        return f"{crc32(read_state_file(f'{directory}/{PREFIX}{step}/{STATE}')):08x}"
    except (OSError, ValueError):
        return ""


def mark_state(directory: str, step: int) -> str:
    """Return by what a checkpoint is known again: that digest, and when its state was written, to two seconds."""
    try:
        written = os.lstat(f"{directory}/{PREFIX}{step}/{STATE}").st_mtime_ns
    except OSError:
        written = 0
    return f"{digest_state(directory, step)} {written // TICK}"


class CheckpointFilter(NamedTuple):
    """Which checkpoints in a directory are those of a run; all of them where nothing is known.

    before: marks of those that were there before it, by their steps; is_timed: whether the times in them are still
    those of the files; users: who has run it, by uid, None where nobody knows; most: its steps, if it says them.
    """

    before: Mapping[str, str] = {}
    is_timed: bool = False
    users: frozenset[int] | None = None
    most: int | None = None

    def was_before(self, directory: str, step: int) -> bool:
        """Return whether a checkpoint was there before the run, as far as is known.

        Without times one with the same losses counts as such: other data may have them, too.
        """
        known = self.before.get(str(step))
        if known is None or not (self.is_timed and " " in known):
            return known is not None and known.split(" ")[0] == digest_state(directory, step)
        return known == mark_state(directory, step)

    def find_stranger(self, place: Path, step: int) -> str | None:
        """Return why a checkpoint is not believed to be the run's, in words that follow its name."""
        if self.most is not None and step > self.most:
            return f"is beyond the {self.most} steps of this run"
        strange = sorted(set(list_owners(str(place.parent), step)) - self.users) if self.users is not None else []
        return f"belongs to uid {strange[0]}, who has not run this" if strange else None


def list_steps(directory: str) -> list[int]:
    """List the steps of all checkpoints, complete or not, the last one first; a link is none."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    steps = (name[len(PREFIX) :] for name in names if name.startswith(PREFIX) and is_directory(f"{directory}/{name}"))
    return sorted((int(step) for step in steps if step.isdecimal() and str(int(step)) == step), reverse=True)


def list_owners(directory: str, *steps: int) -> list[int]:
    """List the owners of checkpoints and of their states, by uid; steps: of which ones, all where none is given."""
    places = [f"{directory}/{PREFIX}{step}" for step in steps or list_steps(directory)]
    paths = (path for place in places for path in (place, f"{place}/{STATE}") if os.path.lexists(path))
    return sorted({os.lstat(path).st_uid for path in paths})


def is_directory(path: str) -> bool:
    """Return whether a directory is there, and no link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def find_last(directory: str, chosen: CheckpointFilter) -> tuple[int | None, list[str]]:
    """Return the step of the last checkpoint from which the Trainer can go on, and what is wrong with those after it.

    Raise Refusal for one that would be gone on from and may not be read.
    """
    faults: list[str] = []
    for step in list_steps(directory):
        place = Path(directory, f"{PREFIX}{step}")
        if fault := chosen.find_stranger(place, step):  # who may have written anything there
            if str(step) not in chosen.before:
                faults.append(f"{place.name} {fault}")
            continue
        if chosen.was_before(directory, step):
            if not chosen.is_timed:
                faults.append(f"{place.name} is taken for one that was there before this run")
            continue
        try:
            fault = find_damage(place, step)
        except PermissionError as error:
            raise explain_closed("the last checkpoint cannot be read", str(error.filename)) from None
        if fault is None:
            return step, faults
        faults.append(f"{place.name} {fault}")
    return None, faults


def find_damage(place: Path, step: int) -> str | None:
    """Return why the Trainer cannot go on from a checkpoint, in words that follow its name; None if it can.

    Without a state of the optimizer it would go on, with a new one at the full learning rate (--save_only_model). Raise
    PermissionError for a file that it would read, and may not.
    """
    has_state = STATE in os.listdir(place)
    if has_state and os.lstat(place / STATE).st_size > MOST_STATE:
        return f"has logged more than can be read ({STATE})"
    state = read_object(place / STATE) if has_state else {}
    total = state.get("max_steps")
    if state.get("global_step") != step or (isinstance(total, int) and 0 < total < step):
        return f"is not complete ({STATE})"
    link = find_link(place)
    if link is not None:
        return f"has a link ({link})"
    files = (path for pattern in LOADED for path in sorted(place.glob(pattern)) if path.is_file())
    empty = next((path.name for path in files if not path.stat().st_size), None)
    if empty is not None:
        return f"is damaged ({empty} is empty)"
    has_optimizer = (place / SCHEDULER).is_file() and any(place.glob(OPTIMIZER))
    return None if has_optimizer or any(place.glob(DEEPSPEED)) else "has no state of the optimizer"


def find_link(place: Path) -> str | None:
    """Return the first link in a checkpoint, as the Trainer leaves none; None if there is none.

    Raise PermissionError for what may not be read.
    """

    def fail(error: OSError) -> None:
        raise error

    for above, directories, files in os.walk(place, onerror=fail):
        for name in (*directories, *files):
            path = f"{above}/{name}"
            if os.path.islink(path):
                return os.path.relpath(path, place)
            if os.path.isfile(path):
                os.close(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    return None


def read_object(path: Path) -> dict[str, object]:
    """Return the object in a state; empty where none can be read. Raise PermissionError where that is why."""
    try:
        value = parse_logged(read_state_file(str(path)), VALUES)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def read_state_file(path: str) -> bytes:
    """Return the bytes of a state; raise OSError or ValueError for what is no plain file, or larger than MOST_STATE."""
    file = open_plain(path)
    if file is None:
        raise ValueError("it is no plain file")
    with file:
        if os.fstat(file.fileno()).st_size > MOST_STATE:
            raise ValueError("it is too large")
        return file.read(MOST_STATE)
