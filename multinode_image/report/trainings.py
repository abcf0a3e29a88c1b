"""What trainings have left in their directories for results, read with bounds and without trust.

The Trainer's state is in our directory, where it also tells of starts (results/states.py), in each checkpoint, and in
the directory itself where a script writes it. What was written last counts. Scripts leave metrics of their end, too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from multinode_image.machine.files import list_directory
from multinode_image.printing.secrets import hide_text
from multinode_image.reading import as_list, read_number
from multinode_image.results.checkpoints import PREFIX, STATE, list_steps
from multinode_image.results.record import STATE_DIRECTORY
from multinode_image.results.states import LETTERS, SPEED, WAITING, Start, read_starts, read_state

METRICS = "all_results.json"
# Names of what is logged, and states that are read until one is whole.
NAMES, TRIES = 200, 3
# How names of what the Trainer logs about itself end: no curve is drawn of that, but of the speed between two rows.
ABOUT = ("_runtime", "_per_second", "_flos", "_time", "train_loss", "epoch")

# A step, and the value there, which may be no number.
Point = tuple[int, float]


@dataclass(frozen=True)
class Training:
    """A training: where it is, its starts, its curves by name, and its metrics at the end.

    step: the last one; total: the steps that it has, 0 where nobody says it.
    """

    directory: str
    starts: tuple[Start, ...]
    curves: Mapping[str, list[Point]]
    metrics: Mapping[str, float]
    step: int
    total: int
    notes: tuple[str, ...] = ()

    @property
    def facts(self) -> Mapping[str, object]:
        """Return what the last start says of itself; empty without one."""
        return self.starts[-1] if self.starts else {}


def find_trainings(directory: str) -> list[str]:
    """List the directory itself, if a training has left something there, else those in it, the newest first."""
    if list_left(directory):
        return [directory]
    below = (os.path.normpath(f"{directory}/{name}") for name in list_directory(directory))
    times = {path: max(map(os.path.getmtime, left)) for path in below if (left := list_left(path))}
    return sorted(times, key=times.__getitem__, reverse=True)


def list_left(directory: str) -> list[str]:
    """List the states in a directory, ours first."""
    steps = list_steps(directory) if os.access(directory, os.R_OK) else []
    places = (STATE_DIRECTORY, ".", *(f"{PREFIX}{step}" for step in steps))
    return [path for place in places if os.path.isfile(path := f"{directory}/{place}/{STATE}")]


def read_training(directory: str) -> Training:
    """Read what a training has left; what is broken in it is left out, with a note."""
    state, notes = read_last(directory)
    return Training(
        directory,
        tuple(read_starts(state) or read_starts(read_state(f"{directory}/{STATE_DIRECTORY}/{STATE}"))),
        collect(list_logged(state.get("log_history"))),
        {show_name(name): value for name, value in list_numbers(read_state(f"{directory}/{METRICS}"))},
        parse_step(state.get("global_step")) or 0,
        parse_step(state.get("max_steps")) or 0,
        tuple(notes),
    )


def read_last(directory: str) -> tuple[Mapping[str, object], list[str]]:
    """Return the last state that can be read, and what is wrong with those after it.

    The last one is that which was written last: a training that goes on from an older checkpoint has fewer steps.
    """
    notes: list[str] = []
    for path in sorted(list_left(directory), key=os.path.getmtime, reverse=True)[:TRIES]:
        if state := read_state(path):
            return state, notes
        notes.append(f"{os.path.relpath(path, directory)} is broken, or too large: what it says is left out")
    return {}, notes


def measure(starts: Sequence[Start]) -> dict[str, float]:
    """Return the speed of starts together, and what was waited, as rows of a log have them; empty where unknown."""
    seconds, samples = add(starts, "seconds"), add(starts, "batch", "steps")
    totals = {SPEED: samples} if samples else {}
    if any("waited" in start for start in starts):
        totals[WAITING] = 100 * add(starts, "waited")
    return {name: value / seconds for name, value in totals.items() if seconds > 0 and math.isfinite(value / seconds)}


def add(starts: Iterable[Start], *names: str) -> float:
    """Return the sum of a number of each start, or of the product of some; one that lacks any does not count."""
    rows = ([read_number(start.get(name)) for name in names] for start in starts)
    return sum(math.prod(filter(None, row)) for row in rows if all(row))


def collect(rows: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, list[Point]]:
    """Return the curves in what was logged, by name; the last value at a step counts."""
    curves: dict[str, dict[int, float]] = {}
    for step, row in rows:
        for name, value in row.items():
            if (name == SPEED or not name.endswith(ABOUT)) and (name in curves or len(curves) < NAMES):
                curves.setdefault(name, {})[step] = value
    return {show_name(name): sorted(points.items()) for name, points in curves.items()}


def list_logged(history: object) -> Iterator[tuple[int, Mapping[str, float]]]:
    """Yield the rows of a log_history with their steps; one without a step has no place in a curve."""
    for row in as_list(history):
        step = parse_step(row.get("step")) if isinstance(row, dict) else None
        if isinstance(row, dict) and step is not None:
            yield step, dict(list_numbers(row))


def list_numbers(row: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a row by their names, without the step."""
    for name, value in list(row.items())[:NAMES]:
        number = read_number(value)
        if name != "step" and number is not None:
            yield name, number


def show_name(name: str) -> str:
    """Return the name of what is logged as it may be shown: short, and without a secret."""
    return hide_text(name[: 4 * LETTERS])[:LETTERS]


def parse_step(value: object) -> int | None:
    """Return a step; None for what cannot be one."""
    number = read_number(value)
    return int(number) if number is not None and 0 <= number < 2**53 and number == int(number) else None
