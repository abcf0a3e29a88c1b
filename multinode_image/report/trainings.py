"""What trainings have left in their directories for results, read with bounds and without trust.

Three files tell of one: the history that a training of an image keeps (hooks/history.py), the state of the Trainer
in the directory or in its newest checkpoint, and the metrics that the example scripts write at their end. Where the
first two tell of the same step, the history counts.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from multinode_image.machine.files import list_directory
from multinode_image.printing.secrets import hide_text
from multinode_image.results.checkpoints import PREFIX, STATE, list_steps
from multinode_image.results.record import STATE_DIRECTORY
from multinode_image.results.shared import SAFELY

HISTORY, METRICS = "history.jsonl", "all_results.json"
# Bytes that are read of a file: a history has 100 for a row. Of a longer history the end counts; another file that long
# is not read.
MOST = 64 << 20
# Names of what is logged, letters of one, and rows of one history.
NAMES, LETTERS, ROWS = 200, 100, 1_000_000
# Parts of a start between which its speed is measured.
PARTS = 100
SPEED, WAITING = "samples per second", "waiting"
# How names of what the Trainer logs about itself end: no curve is drawn of that.
ABOUT = ("_runtime", "_per_second", "_flos", "_time", "train_loss", "epoch")

# A step, and the value there, which may be no number; a step, the time, and the seconds waited until then.
Point = tuple[int, float]
Moment = tuple[int, float, "float | None"]


@dataclass(frozen=True)
class Attempt:
    """A start of a training: its step, what it says of itself, and its moments."""

    step: int
    facts: Mapping[str, object]
    moments: list[Moment] = field(default_factory=list)


@dataclass(frozen=True)
class Training:
    """A training: where it is, its starts, its curves by name, and its metrics at the end; total: the steps it has."""

    directory: str
    starts: tuple[Attempt, ...]
    curves: Mapping[str, list[Point]]
    metrics: Mapping[str, float]
    total: int
    peak: float | None
    notes: tuple[str, ...]

    @property
    def facts(self) -> Mapping[str, object]:
        """Return what the last start says of itself; empty without a history."""
        return self.starts[-1].facts if self.starts else {}

    @property
    def seconds(self) -> float:
        """Return the seconds of all starts, without the time between them; 0 where nobody has kept it."""
        return sum(each.moments[-1][1] - each.moments[0][1] for each in self.starts if each.moments)


def find_trainings(directory: str) -> list[str]:
    """List the directory itself, if a training has left something there, else those in it, the newest first."""
    if list_left(directory):
        return [directory]
    below = (os.path.normpath(f"{directory}/{name}") for name in list_directory(directory))
    times = {path: max(map(os.path.getmtime, left)) for path in below if (left := list_left(path))}
    return sorted(times, key=times.__getitem__, reverse=True)


def list_left(directory: str) -> list[str]:
    """List the files that tell of a training in a directory."""
    files = [f"{directory}/{name}" for name in (f"{STATE_DIRECTORY}/{HISTORY}", STATE)]
    return [*filter(os.path.isfile, files), *list_states(directory)[:1]]


def list_states(directory: str) -> list[str]:
    """List the states of the checkpoints in a directory, that of the last step first."""
    try:
        steps = list_steps(directory)
    except (OSError, ValueError):  # a name may have more digits than a number
        return []
    paths = (f"{directory}/{PREFIX}{step}/{STATE}" for step in steps)
    return [path for path in paths if os.path.isfile(path)]


def read_training(directory: str) -> Training:
    """Read what a training has left; what is broken in it is left out, with a note."""
    starts, logged, peak, notes = read_history(f"{directory}/{STATE_DIRECTORY}/{HISTORY}")
    state, fault = read_state(directory)
    first = min((step for step, _ in logged), default=math.inf)
    first = min(first, starts[0].step) if starts else first
    before = [(step, row) for step, row in list_logged(state.get("log_history")) if step < first]
    curves = collect([*before, *logged])
    curves.update(measure(starts))
    steps = (starts[-1].facts.get("steps") if starts else None, state.get("max_steps"))
    total = next((int(each) for each in map(read_number, steps) if each is not None and 0 < each < math.inf), 0)
    metrics = parse(read_end(f"{directory}/{METRICS}")[0])
    return Training(
        directory=directory,
        starts=tuple(starts),
        curves=curves,
        metrics=dict(list_numbers(metrics)) if isinstance(metrics, dict) else {},
        total=total,
        peak=peak,
        notes=(*notes, *fault),
    )


def read_state(directory: str) -> tuple[Mapping[str, object], list[str]]:
    """Return the state that was written last, and what is wrong with it."""
    root = f"{directory}/{STATE}"
    states = [*list_states(directory)[:1], *([root] if os.path.isfile(root) else [])]
    if not states:
        return {}, []
    newest = max(states, key=os.path.getmtime)
    text, is_whole = read_end(newest)
    found = parse(text) if is_whole else None
    if isinstance(found, dict):
        return found, []
    return {}, [f"{os.path.relpath(newest, directory)} is broken, or too large: what it says is left out"]


def read_history(path: str) -> tuple[list[Attempt], list[tuple[int, Mapping[str, object]]], float | None, list[str]]:
    """Return the starts in a history, what was logged at which step, the most memory of a process, and notes.

    A start goes on from a step, so that what an earlier one did after that counts no more.
    """
    text, is_whole = read_end(path)
    notes = [] if is_whole else ["of a long history the end is shown"]
    starts: list[Attempt] = []
    logged: list[tuple[int, Mapping[str, object]]] = []
    peak = None
    lines = text.splitlines()[-ROWS:]
    rows = [row for row in map(parse, filter(None, lines)) if isinstance(row, dict)]
    if len(rows) < sum(map(bool, lines)):
        notes.append("rows of the history that are broken are left out")
    for row in rows:
        step, now = parse_step(row.get("step")), read_number(row.get("time"))
        if step is None:
            continue
        if "began" in row:
            starts = [*starts, Attempt(step, row)] if step else [Attempt(step, row)]
            logged = [each for each in logged if each[0] <= step]
        elif isinstance(row.get("logged"), dict):
            logged.append((step, row["logged"]))
        elif starts and now is not None and math.isfinite(now):
            starts[-1].moments.append((step, now, read_number(row.get("waited"))))
            peak = read_number(row.get("peak")) or peak
    return starts, logged, peak, notes


def measure(starts: Iterable[Attempt]) -> dict[str, list[Point]]:
    """Return the curves of the speed, in samples of all ranks, and of the part of the time that was waited."""
    speed: list[Point] = []
    waiting: list[Point] = []
    for start in starts:
        batch = read_number(start.facts.get("batch"))
        speed, waiting = ([point for point in each if point[0] <= start.step] for each in (speed, waiting))
        moments = choose_moments(start.moments)
        for (before, since, old), (step, now, waited) in zip(moments, moments[1:]):
            if step <= before or now <= since:
                continue
            if batch is not None:
                speed.append((step, (step - before) * batch / (now - since)))
            if waited is not None:
                waiting.append((step, 100 * (waited - (old or 0)) / (now - since)))
    return {name: points for name, points in ((SPEED, speed), (WAITING, waiting)) if points}


def choose_moments(moments: Sequence[Moment]) -> list[Moment]:
    """Return moments that are a hundredth of the time apart, or more: shorter ones differ by chance."""
    chosen: list[Moment] = []
    for each in moments:
        if not chosen or each[1] - chosen[-1][1] >= (moments[-1][1] - moments[0][1]) / PARTS:
            chosen.append(each)
    return chosen


def collect(rows: Iterable[tuple[int, Mapping[str, object]]]) -> dict[str, list[Point]]:
    """Return the curves in what was logged, by name; the last value at a step counts."""
    found: dict[str, dict[int, float]] = {}
    for step, row in rows:
        for name, value in list_numbers(row):
            if not name.endswith(ABOUT) and (name in found or len(found) < NAMES):
                found.setdefault(name, {})[step] = value
    return {name: sorted(points.items()) for name, points in found.items()}


def list_logged(history: object) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the rows of a log_history with their steps; one without a step has no place in a curve."""
    for row in (history if isinstance(history, list) else [])[-ROWS:]:
        step = parse_step(row.get("step")) if isinstance(row, dict) else None
        if step is not None:
            yield step, row


def list_numbers(row: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a row by their names, without the step and without secrets."""
    for name, value in list(row.items())[:NAMES]:
        number = read_number(value)
        if name != "step" and number is not None:
            yield hide_text(name)[:LETTERS], number


def read_number(value: object) -> float | None:
    """Return a number of JSON; None for anything else. It may be infinite, or none at all (NaN)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def parse_step(value: object) -> int | None:
    """Return a step; None for what cannot be one."""
    number = read_number(value)
    return int(number) if number is not None and 0 <= number < 2**53 and number == int(number) else None


def parse(text: str) -> object:
    """Return what a text of JSON has; None where it is broken."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_end(path: str, most: int = MOST) -> tuple[str, bool]:
    """Return the end of a plain file, without the row that it begins in, and whether that is all; empty for none."""
    try:
        opened = os.open(path, os.O_RDONLY | SAFELY)
    except (OSError, ValueError):
        return "", True
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode):
        os.close(opened)
        return "", True
    with open(opened, "rb") as file:
        file.seek(max(0, found.st_size - most))
        text = file.read(most).decode("utf-8", "replace")
    return (text, True) if found.st_size <= most else (text.partition("\n")[2], False)
