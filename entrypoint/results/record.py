"""The record of a run in its directory for results, by which the same command goes on there and another is refused.

A run is a program, its arguments and its directory. What it was started with is left there in `_multinode` (what begins
with `_` is not uploaded: transformers/trainer.py, push_to_hub).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from entrypoint.errors import Refusal
from entrypoint.printing.secrets import hide_text, is_secret
from entrypoint.printing.streams import quote
from entrypoint.results.checkpoints import PREFIX, digest_state, find_last, list_steps
from entrypoint.results.shared import Shared, open_shared
from entrypoint.tasks.defaults import OUTPUT_DIR

STATE_DIRECTORY, RECORD = "_multinode", "run.json"
FLAG, OVERWRITE = "resume_from_checkpoint", "overwrite_output_dir"
# What a user's script reads, and where it writes if its arguments do not say so; what `no` says in the former.
RESUME, RESULTS, ANEW = "MULTINODE_RESUME", "MULTINODE_OUTPUT", "no"
OUTPUTS = (OUTPUT_DIR, "out_dir", "save_dir", "results_dir")
# How the program of a run gets a checkpoint; some tasks take none.
AS_FLAG, AS_VARIABLE, NEVER = "flag", "variable", "never"
# What a file system has of its own.
IGNORED = (STATE_DIRECTORY, "lost+found", ".snapshot")
# Arguments that change nothing in what is trained: where results go, what is said of them, how fast they are made, and
# which node this is (transformers/training_args.py, and the arguments of the examples); and how others begin.
NO_EFFECT = f"""
{" ".join(OUTPUTS)} {FLAG} {OVERWRITE} cache_dir overwrite_cache save_total_limit save_on_each_node
enable_jit_checkpoint disable_tqdm report_to run_name with_tracking use_cpu no_cuda per_device_eval_batch_size
preprocessing_num_workers dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers
dataloader_prefetch_factor rank local_rank node_rank master_addr master_port
""".split()
NO_EFFECT_PREFIXES = ("hub_", "logging_", "log_", "push_to_hub", "ddp_", "gradient_checkpointing")


@dataclass(frozen=True)
class Run:
    """A training and its directory for results.

    resume_from: a checkpoint that the user names; overwrite: whether he wants nothing of what is there; starts: whether
    torchrun starts its ranks.
    """

    directory: str
    task: str
    arguments: Mapping[str, str]
    resume_from: str
    overwrite: bool
    handover: str
    starts: bool

    @property
    def ours(self) -> str:
        """Return the path of our directory in that for results."""
        return f"{self.directory}/{STATE_DIRECTORY}"


@dataclass(frozen=True)
class Record:
    """What a run has left: its program and arguments, and the checkpoint that was named.

    before: digests of the checkpoints that were there before it, by their steps; a copy of the directory has them, too.
    name: that no other run has, also one of the same command.
    """

    task: str
    arguments: Mapping[str, str]
    resume_from: str = ""
    before: Mapping[str, str] = field(default_factory=dict)
    name: str = ""


def select_arguments(arguments: Mapping[str, object]) -> dict[str, str]:
    """Return the arguments by which a run is known: those that change the training, without secrets."""
    return {
        name: hide_text(str(value))
        for name, value in arguments.items()
        if not (name in NO_EFFECT or name.startswith(NO_EFFECT_PREFIXES) or is_secret(name, str(value)))
    }


def read_record(directory: str) -> str:
    """Return the text of the record in a directory for results; empty if there is none."""
    own = open_shared(f"{directory}/{STATE_DIRECTORY}")
    return (own.read(RECORD) if own else None) or ""


def parse_record(text: str) -> Record | None:
    """Return the record in a text; None where it has none."""
    try:
        found = json.loads(text)
        arguments, before = (
            {str(name): str(each) for name, each in found[key].items()} for key in ("arguments", "before")
        )
        return Record(str(found["task"]), arguments, str(found["resume_from"]), before, str(found.get("name", "")))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def leave_record(run: Run, old: Record | None, own: Shared) -> None:
    """Write the record of a run that begins; one that names the same checkpoint at each start goes on."""
    is_new = old is None or run.overwrite or run.resume_from not in ("", old.resume_from) or bool(compare(run, old))
    if is_new:
        before = {str(step): digest_state(run.directory, step) for step in list_steps(run.directory)}
        record = Record(run.task, run.arguments, run.resume_from, before, os.urandom(8).hex())
        own.write(RECORD, json.dumps(asdict(record), indent=1, sort_keys=True))


def compare(run: Run, old: Record) -> list[str]:
    """List the arguments in which a run differs from what was there, as they are typed."""
    if run.task != old.task:
        return [f"{old.task} there, {run.task} here"]
    names = sorted({*old.arguments, *run.arguments})
    values = [(name, old.arguments.get(name, "not set"), run.arguments.get(name, "not set")) for name in names]
    return [f"--{name} {before} there, {now} here" for name, before, now in values if before != now]


def check_run(run: Run, old: Record | None) -> None:
    """Raise Refusal if the directory holds results of another run, which this one would take for its own."""
    named = run.resume_from if run.handover != NEVER else ""  # some scripts ignore it
    if named and not os.path.exists(named):
        remedy = f"one of those in {run.directory}, or leave it out to go on from the last one there"
        raise Refusal("there is no such checkpoint", named, remedy)
    names = os.listdir(run.directory) if os.path.isdir(run.directory) else []
    there, steps = sorted(name for name in names if name not in IGNORED), list_steps(run.directory)
    differences = ["it left no record of its arguments"] if old is None else compare(run, old)
    if run.overwrite or named or not differences or not (steps if old is None else there):
        return
    last = f"{PREFIX}{steps[0]}" if steps else there[0]
    value = f"{run.directory} with {last}: {', '.join(differences)}"
    own = run.handover == AS_VARIABLE
    ways = [f"{RESULTS}=ANOTHER, or the argument of the script" if own else f"--{OUTPUT_DIR} ANOTHER"]
    ways.append(f"{f'{RESUME}={ANEW}' if own else f'--{OVERWRITE}'} to begin anew there")
    step, _ = find_last(run.directory, {})
    if step is not None:
        place = quote(f"{run.directory}/{PREFIX}{step}")
        ways.append(f"{RESUME}={place}" if own else f"--{FLAG} {place}")
    raise Refusal("the directory for results holds another run", value, ", or ".join(ways))
