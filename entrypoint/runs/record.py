"""What a run leaves in its directory: its arguments, so that no other run takes its checkpoints for its own.

Everything is in DIRECTORY/_multinode: what begins with `_` is not uploaded to the hub (transformers/trainer.py,
push_to_hub).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.container.files import read_text
from entrypoint.errors import Refusal
from entrypoint.printing.secrets import is_secret
from entrypoint.printing.streams import quote
from entrypoint.runs.checkpoints import PREFIX, Checkpoint, find_gap, list_checkpoints, list_names, read_step
from entrypoint.runs.damage import find_fault

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN = "_multinode"
# What a node leaves that has seen another one renew the lease of their job.
PROOF = "shared"
# Between the place of a node and the name of its host, which has none.
AT = "@"
# How many of the checkpoints that are passed over a note names.
SHOWN = 3
# What a file system has of its own.
IGNORED = (OWN, "lost+found", ".snapshot")
# Arguments that change nothing in what is trained. A backend is set only where there are several ranks.
OTHER = (
    "output_dir", "overwrite_output_dir", "resume_from_checkpoint", "logging_dir", "cache_dir", "use_auth_token",
    "enable_jit_checkpoint", "save_total_limit", "ddp_backend", "xpu_backend",
)  # fmt: skip


class Record(NamedTuple):
    """A run: its task and arguments, on how many nodes it began, and the checkpoints that were there before it."""

    task: str
    arguments: dict[str, str]
    nodes: int
    before: list[Checkpoint]


def describe(task: str, given: Mapping[str, object], nodes: int, directory: str) -> Record:
    """Return the record of a run that begins now."""
    kept = {name: str(value) for name, value in given.items() if name not in OTHER and not is_secret(name)}
    return Record(task, kept, nodes, list_checkpoints(directory))


def read_record(directory: str) -> Record | None:
    """Return the record in a directory; None if there is none, or none that can be read."""
    try:
        found = json.loads(read_text(f"{directory}/{OWN}/run.json") or "")
        before = [Checkpoint(str(name), int(step), int(written)) for name, step, written in found["before"]]
        arguments = {str(name): str(value) for name, value in found["arguments"].items()}
        return Record(str(found["task"]), arguments, int(found["nodes"]), before)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def as_text(record: Record) -> str:
    """Return the text of a record."""
    return json.dumps(record._asdict(), indent=1, sort_keys=True)


def check_record(directory: str, old: Record | None, new: Record) -> None:
    """Raise Refusal if the directory holds results of another run, which this one would take for its own."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    there = sorted(name for name in names if name not in IGNORED)
    steps = [name for name in there if name.startswith(PREFIX)]
    if old is None and not steps:
        return
    differences = ["it left no record of its arguments"] if old is None else compare(old, new)
    if there and differences:
        last = max(steps, key=read_step, default="")
        remedy = "--output_dir ANOTHER, or --overwrite_output_dir to begin anew there"
        whole, _ = pass_damaged(directory, list_checkpoints(directory))
        if whole:
            remedy += f", or --resume_from_checkpoint {quote(f'{directory}/{whole.name}')}"
        value = f"{directory} with {last or there[0]}: {', '.join(differences)}"
        raise Refusal("the directory for results holds another run", value, remedy)


def compare(old: Record, new: Record) -> list[str]:
    """List the arguments in which two runs differ, as they are typed."""
    if old.task != new.task:
        return [f"{old.task} there, {new.task} here"]
    names = sorted({*old.arguments, *new.arguments} - {*OTHER})  # an older release has written what is in it now
    values = ((name, old.arguments.get(name, "not set"), new.arguments.get(name, "not set")) for name in names)
    return [f"--{name} {there} there, {here} here" for name, there, here in values if there != here]


def find_last(directory: str, nodes: int) -> tuple[Checkpoint | None, str]:
    """Return the last whole checkpoint of the run in a directory, None if there is none, and a note for the log.

    Every rank gets the same answer whenever it asks, because the record and the marks of the nodes are written before
    the first checkpoint of a run.
    """
    record = read_record(directory)
    if record is None:
        return None, ""
    found = [each for each in list_checkpoints(directory) if each not in record.before]
    if found and nodes > 1 and (record.nodes == 1 or not is_shared(directory, record.nodes)):
        return None, f"{directory}/{found[-1].name} is not used: not all nodes are known to share this directory"
    last, faults = pass_damaged(directory, found)
    if last is None and not faults:
        return None, ""
    then = f"goes on from {directory}/{last.name}" if last else "begins at step 0"
    return last, f"{', '.join(shorten(faults))}: {then}" if faults else then


def shorten(faults: list[str]) -> list[str]:
    """Return the first few faults and how many more there are: with --save_only_model all checkpoints have one."""
    return faults if len(faults) <= SHOWN else [*faults[:SHOWN], f"and {len(faults) - SHOWN} others"]


def pass_damaged(directory: str, found: list[Checkpoint]) -> tuple[Checkpoint | None, list[str]]:
    """Return the last checkpoint that the Trainer can go on from, and what is wrong with those after it.

    found: the complete ones that may be taken, the oldest first.
    """
    last, faults = None, dict[str, str]()
    for each in reversed(found):
        fault = find_fault(f"{directory}/{each.name}")
        if fault is None:
            last = each
            break
        faults[each.name] = fault
    after = [name for name in list_names(directory) if last is None or read_step(name) > last.step]
    gaps = {name: find_gap(f"{directory}/{name}", read_step(name)) for name in after}
    faults.update({name: f"is not complete ({gap})" for name, gap in gaps.items() if gap is not None})
    return last, [f"{name} {faults[name]}" for name in sorted(faults, key=read_step, reverse=True)]


def is_shared(directory: str, nodes: int) -> bool:
    """Return whether as many nodes are known to share a directory: by the proof that one left, or by their marks."""
    place = f"{directory}/{OWN}/nodes"
    marks = os.listdir(place) if os.path.isdir(place) else []
    return os.path.exists(f"{directory}/{OWN}/{PROOF}") or have_met(marks, nodes)


def make_mark(host: str, place: str) -> str:
    """Return the file by which a node signs; place: which of the nodes it is, empty where nothing says so."""
    return f"{place}{AT}{host}" if place else host


def have_met(marks: list[str], nodes: int) -> bool:
    """Return whether as many nodes, two at least, have left their marks in one directory.

    A container that is started again may have another name, and a machine may be another node of the next job. So
    the places of the nodes have to differ, and their hosts. Marks without a place count by their hosts, and two of them
    are enough: on how many nodes such ranks are is unknown.
    """
    placed = [mark.split(AT, 1) for mark in marks if AT in mark]
    places, hosts = {place for place, _ in placed}, {host for _, host in placed}
    return min(len(places), len(hosts)) >= max(2, nodes) or len(marks) - len(placed) > 1
