"""How many steps a run has in all: as many as when it began, also where another number of ranks goes on with it.

The Trainer counts in steps. Where it is not told how many there are, it computes them from the epochs and the ranks of
this start, and another number of ranks would end early, or follow another schedule of the learning rate
(transformers/trainer.py, set_initial_training_values and _init_training_state).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.runs.checkpoints import STATE, read_object
from entrypoint.tasks.arguments import Program, set_argument

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_STEPS = "max_steps"
# The random state of each rank in a checkpoint: of one that is alone, and of one of several.
ALONE, RANKED = "rng_state.pth", "rng_state_{}.pth"


def keep_steps(name: str, program: Program, directory: str, checkpoint: str, ranks: int) -> tuple[Program, str]:
    """Return a program that goes on from a checkpoint of its run with the steps of that run, and a note for the log.

    name: as in set_argument; ranks: how many train now. The note is empty where the checkpoint is of as many ranks, or
    of an unknown number. The steps are kept there too: an earlier start of the run may have had other ranks.
    """
    place = f"{directory}/{checkpoint}"
    total = (read_object(f"{place}/{STATE}") or {}).get(MAX_STEPS)
    if names_steps(program.given) or not isinstance(total, int) or total <= 0:
        return program, ""
    program, wrote = set_argument(name, program, MAX_STEPS, total), count_ranks(place)
    if wrote is None or wrote == ranks:
        return program, ""
    then = f"the training keeps its {total} steps, and each takes the examples of {name_ranks(ranks)}"
    other = f"for another end: --{MAX_STEPS} N --resume_from_checkpoint {place}"
    return program, f"{checkpoint} has the states of {name_ranks(wrote)}, not of {ranks}: {then}; {other}"


def names_steps(given: Mapping[str, object]) -> bool:
    """Return whether the user said how many steps there are; -1 is how the Trainer says that nobody did."""
    value = given.get(MAX_STEPS)
    return value is not None and not str(value).strip().startswith("-")


def count_ranks(place: str) -> int | None:
    """Return how many ranks have left their state in a checkpoint; None where the files of some are missing."""
    names = {name for name in os.listdir(place) if name.startswith("rng_state")}
    if names == {ALONE}:
        return 1
    return len(names) if len(names) > 1 and names == {RANKED.format(rank) for rank in range(len(names))} else None


def name_ranks(count: int) -> str:
    """Return a number of ranks as it is written."""
    return "1 rank" if count == 1 else f"{count} ranks"
