"""What trainings have left in their directories for results, read with bounds and without trust.

Three files tell of one: the history that a training of an image keeps (hooks/trainer/history.py), the state of the
Trainer in the directory or in its newest checkpoint, and the metrics that the example scripts write at their end. Where
the first two tell of the same step, the history counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from multinode_image.machine.files import list_directory, open_plain
from multinode_image.printing.secrets import hide_text
from multinode_image.reading import parse_logged
from multinode_image.results.checkpoints import PREFIX, STATE, list_steps
from multinode_image.results.record import STATE_DIRECTORY

HISTORY, METRICS = "history.jsonl", "all_results.json"
# Bytes that are read of a file, and values in it: a history has 150 and six for a row. Of a longer history the end
# counts; another file that long is not read. A page has several of each.
MOST, VALUES = 32 << 20, 1_000_000
# Names of what is logged, letters of one, rows of one history, and letters of a row, which is read for itself.
NAMES, LETTERS, ROWS, ROW = 200, 100, 200_000, 1 << 16
# Parts of a start between which its speed is measured.
PARTS = 100
SPEED, WAITING = "samples per second", "waiting"
# How names of what the Trainer logs about itself end: no curve is drawn of that.
ABOUT = ("_runtime", "_per_second", "_flos", "_time", "train_loss", "epoch")

# What is kept of what a start says of itself (hooks/trainer/history.py, describe).
FACTS = (
    "began", "script", "model", "weights", "ranks", "batch", "bf16", "gradients", "threads", "steps", "torch",
    "transformers",
)  # fmt: skip

# A step, and the value there, which may be no number; a step, the time, and the seconds waited until then.
Point = tuple[int, float]
# What was logged at a step; None for a start.
Logged = tuple[int, "Mapping[str, float] | None"]
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
    counted = drop_undone(logged)
    first = min([step for step, _ in counted] + [start.step for start in starts[:1]], default=math.inf)
    before = [(step, row) for step, row in list_logged(state.get("log_history")) if step < first]
    curves = {**collect([*before, *counted]), **collect(drop_undone(measure(starts)))}
    steps = (starts[-1].facts.get("steps") if starts else None, state.get("max_steps"))
    total = next((int(each) for each in map(read_number, steps) if each is not None and 0 < each < math.inf), 0)
    metrics = parse_row(read_end(f"{directory}/{METRICS}")[0])
    numbers = list_numbers(metrics) if isinstance(metrics, dict) else ()
    return Training(
        directory=directory,
        starts=tuple(starts),
        curves=curves,
        metrics={show_name(name): value for name, value in numbers},
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
    found = parse_row(text) if is_whole else None
    if isinstance(found, dict):
        return found, []
    return {}, [f"{os.path.relpath(newest, directory)} is broken, or too large: what it says is left out"]


def read_history(path: str) -> tuple[list[Attempt], list[Logged], float | None, list[str]]:
    """Return the starts in a history, what was logged at which step, the most memory of a process, and notes."""
    text, is_whole = read_end(path)
    lines = choose_lines(text)
    notes = [] if is_whole else ["of a long history the end is shown"]
    starts: list[Attempt] = []
    logged: list[Logged] = []
    peak, broken = None, 0
    for row in (parse_row(line) if len(line) <= ROW else None for line in lines):
        if not isinstance(row, dict):
            broken += 1
            continue
        step, now = parse_step(row.get("step")), read_number(row.get("time"))
        if step is None:
            continue
        if "began" in row:
            if not step:
                starts = []
            starts.append(Attempt(step, choose_facts(row)))
            logged.append((step, None))
        elif isinstance(row.get("logged"), dict):
            logged.append((step, dict(list_numbers(row["logged"]))))
        elif starts and now is not None and math.isfinite(now):
            starts[-1].moments.append((step, now, read_number(row.get("waited"))))
            peak = read_number(row.get("peak")) or peak
    return starts, logged, peak, [*notes, *(["rows of the history that are broken are left out"] if broken else [])]


def choose_lines(text: str) -> list[str]:
    """Return the last lines of a history, as many as have no more than ROWS and VALUES in all."""
    lines = text.rsplit("\n", ROWS)[-ROWS:]
    left = VALUES
    first = len(lines)
    while first and left > 0:
        first -= 1
        left -= 1 + lines[first].count(":")
    return list(filter(None, lines[first:]))


def choose_facts(row: Mapping[str, object]) -> dict[str, object]:
    """Return what is known of a start, with short texts."""
    facts = {name: row[name] for name in FACTS if row.get(name) is not None}
    return {name: value if isinstance(value, (int, float)) else str(value)[:LETTERS] for name, value in facts.items()}


def measure(starts: Iterable[Attempt]) -> list[Logged]:
    """Return the speed, in samples of all ranks, and the part of the time that was waited, as what was logged."""
    found: list[Logged] = []
    for start in starts:
        found.append((start.step, None))
        batch = read_number(start.facts.get("batch"))
        moments = choose_moments(start.moments)
        for (before, since, old), (step, now, waited) in zip(moments, moments[1:]):
            if step <= before or now <= since:
                continue
            if batch is not None:
                found.append((step, {SPEED: (step - before) * batch / (now - since)}))
            if waited is not None:
                found.append((step, {WAITING: 100 * (waited - (old or 0)) / (now - since)}))
    return found


def choose_moments(moments: Sequence[Moment]) -> list[Moment]:
    """Return moments that are a hundredth of the time apart, or more: shorter ones differ by chance."""
    chosen: list[Moment] = []
    for each in moments:
        if not chosen or each[1] - chosen[-1][1] >= (moments[-1][1] - moments[0][1]) / PARTS:
            chosen.append(each)
    return chosen


def collect(rows: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, list[Point]]:
    """Return the curves in what was logged, by name; the last value at a step counts."""
    found: dict[str, dict[int, float]] = {}
    for step, row in rows:
        for name, value in row.items():
            if not name.endswith(ABOUT) and (name in found or len(found) < NAMES):
                found.setdefault(name, {})[step] = value
    return {show_name(name): sorted(points.items()) for name, points in found.items()}


def drop_undone(rows: Sequence[Logged]) -> list[tuple[int, Mapping[str, float]]]:
    """Return what was logged, in the same order, without what a later start does again: it goes on from its step."""
    kept, least = list[tuple[int, Mapping[str, float]]](), math.inf
    for step, row in reversed(rows):
        if row is None:
            least = min(least, step)
        elif step <= least:
            kept.append((step, row))
    return kept[::-1]


def list_logged(history: object) -> Iterator[tuple[int, Mapping[str, float]]]:
    """Yield the rows of a log_history with their steps; one without a step has no place in a curve."""
    for row in (history if isinstance(history, list) else [])[-ROWS:]:
        step = parse_step(row.get("step")) if isinstance(row, dict) else None
        if step is not None:
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


def parse_row(text: str) -> object:
    """Return what a text of JSON has; None where it is broken."""
    try:
        return parse_logged(text, VALUES)
    except ValueError:
        return None


def read_end(path: str, most: int = MOST) -> tuple[str, bool]:
    """Return the end of a plain file, without the row that it begins in, and whether that is all; empty for none."""
    try:
        file = open_plain(path)
    except (OSError, ValueError):
        return "", True
    if file is None:
        return "", True
    with file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - most))
        text = file.read(most).decode("utf-8", "replace")
    return (text, True) if size <= most else (text.partition("\n")[2], False)
