"""What a run leaves in its directory: its arguments, so that no other run takes its checkpoints for its own.

Everything is in DIRECTORY/_multinode: what begins with `_` is not uploaded to the hub (transformers/trainer.py,
push_to_hub).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.machine.files import read_text, write_whole
from entrypoint.printing.secrets import hide_text, is_secret
from entrypoint.printing.streams import quote
from entrypoint.runs.checkpoints import PREFIX, Checkpoint, find_gap, list_checkpoints, list_names, read_step
from entrypoint.runs.damage import find_fault
from entrypoint.tasks.arguments import BATCH, read_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN, FLAG = "_multinode", "resume_from_checkpoint"
# How many of the checkpoints that are passed over a note names.
SHOWN = 3
# What a file system has of its own.
IGNORED = (OWN, "lost+found", ".snapshot")
# Arguments that change nothing in what is trained: where results go, what is said of them, and how fast they are made
# (transformers/training_args.py, and the arguments of the examples). A backend is set where there are several ranks.
OTHER = {
    FLAG, "output_dir", "overwrite_output_dir", "cache_dir", "overwrite_cache", "use_auth_token",
    "enable_jit_checkpoint", "save_total_limit", "save_on_each_node", "disable_tqdm", "log_level",
    "log_level_replica", "log_on_each_node", "report_to", "run_name", "project", "with_tracking",
    "skip_memory_metrics", "include_num_input_tokens_seen", "include_tokens_per_second", "use_cpu", "no_cuda",
    "ddp_backend", "xpu_backend", "ddp_timeout", "ddp_bucket_cap_mb", "ddp_find_unused_parameters",
    "preprocessing_num_workers", "dataloader_num_workers", "dataloader_pin_memory", "dataloader_persistent_workers",
    "dataloader_prefetch_factor", "dataloader_multiprocessing_context", "per_device_eval_batch_size",
    "eval_accumulation_steps", "gradient_checkpointing", "gradient_checkpointing_kwargs", "activation_checkpointing",
    "activation_checkpointing_kwargs", "torch_empty_cache_steps",
}  # fmt: skip
OTHERS = ("hub_", "logging_", "push_to_hub", "trackio_")
# What the Trainer takes for a batch where nothing is typed.
EACH = {BATCH[0][0]: "8"}


class Record(NamedTuple):
    """A run: its task and arguments, the checkpoint that was typed, and the checkpoints that were there before it.

    written: the time of a file that was written beside the record, by the clock of the file system; 0 without one;
    has_all: whether all values of a flag are in it: an older release has recorded the first.
    """

    task: str
    arguments: dict[str, str]
    begins_at: str
    before: list[Checkpoint]
    written: int = 0
    has_all: bool = True


def describe(task: str, given: Mapping[str, object], directory: str) -> Record:
    """Return the record of a run that begins now."""
    texts = {name: str(value) for name, value in given.items() if not changes_nothing(name)}
    kept = {name: hide_text(value) for name, value in texts.items() if not is_secret(name, value)}
    return Record(task, kept, str(given.get(FLAG) or ""), list_checkpoints(directory))


def read_record(directory: str) -> Record | None:
    """Return the record in a directory; None if there is none, or none that can be read."""
    try:
        found = json.loads(read_text(f"{directory}/{OWN}/run.json") or "")
        before = [Checkpoint(str(each[0]), int(each[1]), int(each[2]), *map(str, each[3:])) for each in found["before"]]
        arguments = {str(name): hide_text(str(value)) for name, value in found["arguments"].items()}
        begins_at, written = str(found.get("begins_at", "")), int(found.get("written", 0))
        return Record(str(found["task"]), arguments, begins_at, before, written, bool(found.get("has_all")))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def mark_time(directory: str) -> int:
    """Write the file by whose time a copy of a directory is known, and return that time."""
    path = f"{directory}/{OWN}/time"
    write_whole(path, "")
    return os.stat(path).st_mtime_ns


def is_copy(directory: str, record: Record) -> bool:
    """Return whether a directory is a copy that did not keep the times of its files."""
    try:
        return record.written not in (0, os.stat(f"{directory}/{OWN}/time").st_mtime_ns)
    except OSError:
        return record.written != 0


def as_text(record: Record) -> str:
    """Return the text of a record."""
    return json.dumps(record._asdict(), indent=1, sort_keys=True)


def check_record(directory: str, old: Record | None, new: Record, *, splits: bool) -> None:
    """Raise Refusal if the directory holds results of another run, which this one would take for its own.

    splits: as in compare.
    """
    names = os.listdir(directory) if os.path.isdir(directory) else []
    there = sorted(name for name in names if name not in IGNORED)
    steps = [name for name in there if name.startswith(PREFIX)]
    if old is None and not steps:
        return
    differences = ["it left no record of its arguments"] if old is None else compare(old, new, splits=splits)
    if there and differences:
        last = max(steps, key=read_step, default="")
        remedy = "--output_dir ANOTHER, or --overwrite_output_dir to begin anew there"
        whole, _ = pass_damaged(directory, list_checkpoints(directory))
        if whole:
            remedy += f", or --resume_from_checkpoint {quote(f'{directory}/{whole.name}')}"
        value = f"{directory} with {last or there[0]}: {', '.join(differences)}"
        raise Refusal("the directory for results holds another run", value, remedy)


def compare(old: Record, new: Record, *, splits: bool) -> list[str]:
    """List the arguments in which two runs differ, as they are typed.

    splits: whether a run may take the examples of a step in other parts than before.
    """
    if old.task != new.task:
        return [f"{old.task} there, {new.task} here"]
    # An older release has written what changes nothing.
    names = sorted(name for name in {*old.arguments, *new.arguments} if not changes_nothing(name))
    values = ((name, old.arguments.get(name, "not set"), new.arguments.get(name, "not set")) for name in names)
    changed = (each for each in values if each[1] != each[2] and (old.has_all or not each[2].startswith(f"{each[1]} ")))
    found = {name: f"--{name} {there} there, {here} here" for name, there, here in changed}
    if splits and read_batch({**EACH, **old.arguments}) == read_batch({**EACH, **new.arguments}) is not None:
        found = {name: text for name, text in found.items() if name not in {part for part, _ in BATCH}}
    return [*found.values()]


def changes_nothing(name: str) -> bool:
    """Return whether a run is the same one with another value of an argument."""
    return name in OTHER or name.startswith(OTHERS)


def find_last(directory: str) -> tuple[Checkpoint | None, str]:
    """Return the last whole checkpoint of the run in a directory, None if there is none, and a note for the log."""
    record = read_record(directory)
    if record is None:
        return None, ""
    found = leave_out(list_checkpoints(directory), record.before, copied=is_copy(directory, record))
    last, faults = pass_damaged(directory, found)
    if last is None and not faults:
        return None, ""
    then = f"goes on from {directory}/{last.name}" if last else "begins at step 0"
    return last, f"{', '.join(shorten(faults))}: {then}" if faults else then


def leave_out(found: list[Checkpoint], before: list[Checkpoint], *, copied: bool) -> list[Checkpoint]:
    """Return the checkpoints without those that were there before the run, which it may have written again.

    copied: whether their times are those of a copy. Then only their content tells, which may be the same in both runs.
    """
    if copied:
        digests = {(each.name, each.digest) for each in before}
        return [each for each in found if (each.name, each.digest) not in digests]
    times = {(each.name, each.written) for each in before}
    return [each for each in found if (each.name, each.written) not in times]


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
