"""The record of a run in its directory for results, by which the same command goes on there and another is refused.

A run is a task, what it is known by (identity.py) and its directory. Its start hands it to the ranks, and rank 0 leaves
what it was started with there in `_multinode` (what begins with `_` is not uploaded: transformers/trainer.py,
push_to_hub).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from multinode_image import timeouts
from multinode_image.errors import Refusal
from multinode_image.printing.streams import quote
from multinode_image.reading import parse_json
from multinode_image.results.checkpoints import (
    PREFIX,
    TICK,
    CheckpointFilter,
    find_last,
    list_steps,
    mark_state,
)
from multinode_image.results.identity import FLAG, OVERWRITE, Pair, compare_pairs, identify_task
from multinode_image.results.shared import Busy, Shared, make_shared, open_shared
from multinode_image.tasks.aliases import find_number
from multinode_image.tasks.defaults import MAX_STEPS, OUTPUT_DIR
from multinode_image.tasks.table import TASKS
from multinode_image.world.model import World

STATE_DIRECTORY, RECORD = "_multinode", "run.json"
# From where a training goes on, if the user says so; what begins anew. Where a script writes, if its arguments do not
# say so.
RESUME, ANEW, RESULTS = "MULTINODE_RESUME", "no", "MULTINODE_OUTPUT"
# Says to ranks which run this is (write_run).
RUN = "MULTINODE_RUN"
# What a file system has of its own.
IGNORED = (STATE_DIRECTORY, "lost+found", ".snapshot")


@dataclass(frozen=True)
class Run:
    """A training and its directory for results.

    arguments, files: what it is known by; resume_from: a checkpoint that the user names; overwrite: whether he wants
    nothing of what is there; goes_on: whether it goes on from a checkpoint, as every Trainer does.
    """

    directory: str
    task: str
    arguments: tuple[Pair, ...]
    resume_from: str = ""
    overwrite: bool = False
    goes_on: bool = True
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> str:
        """Return the path of our directory in that for results."""
        return f"{self.directory}/{STATE_DIRECTORY}"


@dataclass(frozen=True)
class Record:
    """What a run has left: its program, what it is known by, and the checkpoint that was named.

    before: marks of the checkpoints that were there before it, by their steps; began: when its first job has begun on
    each of its nodes, by which that job is known when its ranks are started again; users: who has run it, by uid;
    written: when this was written, in nanoseconds, which is also the time of its file: a copy has another.
    """

    task: str
    arguments: tuple[Pair, ...]
    resume_from: str = ""
    before: Mapping[str, str] = field(default_factory=dict)
    began: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    users: tuple[int, ...] = ()
    written: int = 0

    @property
    def filter(self) -> CheckpointFilter:
        """Return which checkpoints are those of the run."""
        most = find_number(dict(self.arguments), MAX_STEPS)
        return CheckpointFilter(self.before, bool(self.written), frozenset(self.users), most or None)


def load_record(directory: str) -> Record | None:
    """Return the record in a directory for results, with the user who has written it; None where there is none.

    In a copy `written` is 0: its checkpoints have other times, too.
    """
    ours = open_shared(f"{directory}/{STATE_DIRECTORY}")
    text = ours.read(RECORD) if ours else None
    record = parse_record(text or "")
    if record is None:
        return None
    status = os.lstat(f"{directory}/{STATE_DIRECTORY}/{RECORD}")
    is_copy = status.st_mtime_ns != record.written
    users = tuple(sorted({*record.users, status.st_uid}))
    return replace(record, users=users, written=0 if is_copy else record.written)


def parse_record(text: str) -> Record | None:
    """Return the record in a text; None where it has none."""
    try:
        fields = parse_json(text)
        task = str(fields["task"])
        pairs = tuple((str(name), str(value)) for name, value in fields["arguments"])
        if task in TASKS:  # a flag may have been renamed since
            pairs = identify_task(dict(pairs), TASKS[task].kind)
        return Record(
            task,
            pairs,
            str(fields["resume_from"]),
            read_texts(fields["before"]),
            tuple(map(str, fields.get("began", ()))),
            read_texts(fields.get("files", {})),
            tuple(map(read_whole, fields.get("users", ()))),
            read_whole(fields.get("written", 0)),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def read_whole(value: object) -> int:
    """Return an integer of JSON; raise ValueError for anything else."""
    if isinstance(value, int):
        return value
    raise ValueError(f"{value!r} is no integer")


def read_texts(values: Mapping[object, object]) -> dict[str, str]:
    """Return an object of JSON as texts."""
    return {str(name): str(value) for name, value in values.items()}


def write_run(run: Run) -> str:
    """Return a run as JSON, for a variable."""
    return json.dumps(asdict(run), sort_keys=True)


def read_run(text: str) -> Run | None:
    """Return the run in a text of `write_run`; None in any other."""
    try:
        fields = parse_json(text)
        pairs = tuple((str(name), str(value)) for name, value in fields["arguments"])
        return Run(**{**fields, "arguments": pairs, "files": read_texts(fields["files"])})
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def begin(run: Run, began: Sequence[str], say: Callable[[str], None]) -> None:
    """Take the directory of a run for this process, and leave the record of the run there.

    began: when this job has begun on each of its nodes: a job whose ranks are started again has begun anew once. Raise
    Refusal if another job writes there, or it holds another run.
    """
    ours = make_shared(run.ours)
    if take_lock(ours, say) is None:
        say(f"{run.directory} is on a file system without locks: two jobs at once are not noticed there")
    old = load_record(run.directory)
    if run.overwrite and old is not None and {*old.began} & {*began} and not list_differences(run, old):
        return
    check_run(run, old)
    leave_record(run, old, ours, began)


def take_lock(ours: Shared, say: Callable[[str], None]) -> int | None:
    """Take the lock of our directory, which a job that is just ending may have for a moment; None without locks."""
    try:
        return ours.lock(0)
    except Busy as busy:
        say(f"{busy.finding}; waiting {timeouts.DIRECTORY:g} s for its end")
        return ours.lock(timeouts.DIRECTORY)


def leave_record(run: Run, old: Record | None, ours: Shared, began: Sequence[str]) -> None:
    """Write the record of a run that begins; to that of a run that goes on, add its user.

    A run begins where it names another checkpoint than it did before. A copy is written anew, so that the next start
    knows more.
    """
    uid, now = os.getuid(), time.time_ns() // TICK * TICK  # a time that no file system rounds
    if old is None or run.overwrite or run.resume_from not in ("", old.resume_from) or list_differences(run, old):
        before = {str(step): mark_state(run.directory, step) for step in list_steps(run.directory)}
        record = Record(run.task, run.arguments, run.resume_from, before, tuple(began), run.files, (uid,), now)
    elif old.written and uid in old.users:
        return
    else:
        steps = [step for step in list_steps(run.directory) if old.filter.was_before(run.directory, step)]
        before = {str(step): mark_state(run.directory, step) for step in steps}
        users = tuple(sorted({*old.users, uid}))
        record = replace(old, arguments=run.arguments, files=run.files, before=before, users=users, written=now)
    ours.write(RECORD, json.dumps(asdict(record), indent=1, sort_keys=True), now)


def list_differences(run: Run, old: Record) -> list[str]:
    """List in what a run differs from what was there, as it is typed."""
    if run.task != old.task:
        return [f"{old.task} there, {run.task} here"]
    both = sorted(run.files.keys() & old.files.keys())
    files = [f"another content of {path}" for path in both if run.files[path] != old.files[path]]
    return compare_pairs(old.arguments, run.arguments) + files


def check_directory(run: Run, world: World) -> None:
    """Raise Refusal if the directory holds another run, before anybody waits.

    If nodes have separate directories, each has parts of checkpoints, and only that of rank 0 has the record.
    """
    old = load_record(run.directory)
    if world.is_first or old is not None:
        check_run(run, old)


def check_run(run: Run, old: Record | None) -> None:
    """Raise Refusal if the directory holds results of another run, which this one would continue.

    Also if the checkpoints of this run cannot be read.
    """
    named = run.resume_from if run.goes_on else ""  # others ignore it
    if named and not os.path.exists(named):
        remedy = f"one of those in {run.directory}, or leave it out to go on from the last one there"
        raise Refusal("there is no such checkpoint", named, remedy)
    if run.overwrite or named:
        return
    differences = ["it left no record of its arguments"] if old is None else list_differences(run, old)
    if old is not None and not differences:
        if run.goes_on:
            find_last(run.directory, old.filter)
        return
    names = os.listdir(run.directory) if os.path.isdir(run.directory) else []
    there, steps = sorted(name for name in names if name not in IGNORED), list_steps(run.directory)
    holds_results = bool(steps if old is None else there)
    if not holds_results:
        return
    last = f"{PREFIX}{steps[0]}" if steps else there[0]
    value = f"{run.directory} with {last}: {', '.join(differences)}"
    raise Refusal("the directory for results holds another run", value, ", or ".join(list_ways(run)))


def list_ways(run: Run) -> list[str]:
    """List what may be typed where a directory holds another run."""
    ways = [f"--{OUTPUT_DIR} ANOTHER", f"--{OVERWRITE} to begin anew there"]
    with contextlib.suppress(Refusal):
        step, _ = find_last(run.directory, CheckpointFilter())
        if step is not None:
            ways.append(f"--{FLAG} {quote(f'{run.directory}/{PREFIX}{step}')}")
    return ways
