"""Let each training of a Trainer go on from its last checkpoint, without a word in the script.

Each checkpoint has a mark of its training (FILE): the command, which training of the process it is in its directory,
its data and its settings. So the same command goes on, and no fold of a cross-validation, and no other setting of a
search, takes the checkpoint of another one. All ranks look, and all wait until they see the last one that any has seen,
since shared file systems show files late. If one does not, all end.

What a script names itself, as by `resume_from_checkpoint=os.environ.get("MULTINODE_RESUME") or None`, goes before. So
does the start of a task, or of a script with that line, which keeps a record in its directory (results/plan.py).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import torch.distributed as dist
from transformers.trainer_callback import TrainerCallback

from multinode_image import timeouts
from multinode_image.documents import parse_json
from multinode_image.hooks.job.one_job import Fault, leave
from multinode_image.machine.places import expand_user
from multinode_image.results.checkpoints import PREFIX, STATE, digest_state, find_damage, list_owners, list_steps
from multinode_image.results.checkpoints import read_object as read_trainer_state
from multinode_image.results.identity import digest_files, identify_script
from multinode_image.results.record import ANEW, KEPT, RESUME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE, LARGEST = "_multinode.json", 1 << 16  # in a checkpoint; bytes of it
PAUSE = 0.3  # seconds between two looks
# When the first Python of a job has started on this node, which begins anew: torchrun starts its ranks again.
BEGAN = "MULTINODE_BEGAN"
MAX_STEPS = "max_steps"
# What makes another training of the same command. How long one lasts, and what it logs, may change.
SETTINGS = (
    "learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "weight_decay", "adam_beta1",
    "adam_beta2", "adam_epsilon", "max_grad_norm", "lr_scheduler_type", "warmup_steps", "warmup_ratio", "seed",
    "data_seed", "optim", "label_smoothing_factor",
)  # fmt: skip
# The trainings of this process that have begun, by their directories; and the mark of the one that runs.
BEGUN: list[str] = []
RUNNING: list[Mark] = []

Mark = dict[str, Any]


class Found(NamedTuple):
    """What a rank has found: the step of the last checkpoint, a digest of it, and what is wrong with others."""

    step: int
    content: str
    faults: list[str]


NOTHING = Found(0, "", [])


class MarkCheckpoints(TrainerCallback):
    """Write the mark of a training into each checkpoint."""

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Write it after all else, on each rank that writes files."""
        if args.should_save and RUNNING:
            with contextlib.suppress(OSError):  # of a search, which has directories of its own
                write_mark(Path(args.output_dir, f"{PREFIX}{state.global_step}"), RUNNING[-1])


def watch_training(module: Any) -> None:
    """Let every Trainer go on; module: transformers.trainer."""
    module.DEFAULT_CALLBACKS.append(MarkCheckpoints)
    train = module.Trainer.train

    @functools.wraps(train)
    def go_on_and_train(
        self: Any, resume_from_checkpoint: Any = None, trial: Any = None, *words: Any, **more: Any
    ) -> Any:
        if trial is not None or getattr(self, "is_in_train", False):
            return train(self, resume_from_checkpoint, trial, *words, **more)
        mark = describe(self, sys.argv, os.environ)
        RUNNING.append(mark)
        try:
            named = choose(self.args, mark, resume_from_checkpoint, os.environ)
            return train(self, named, trial, *words, **more)
        finally:
            RUNNING.pop()

    module.Trainer.train = go_on_and_train


def describe(trainer: Any, argv: Sequence[str], environ: Mapping[str, str]) -> Mark:
    """Return the mark of a training that begins."""
    args, directory = trainer.args, os.path.realpath(trainer.args.output_dir)
    BEGUN.append(directory)
    pairs = identify_script(list(argv[1:]))
    command = [os.path.basename(argv[0] if argv else ""), pairs, digest_files(pairs)]
    return {
        "command": f"{crc32(json.dumps(command).encode()):08x}",
        "training": BEGUN.count(directory),
        "data": describe_data(trainer.train_dataset),
        "settings": {name: describe_setting(getattr(args, name, None)) for name in SETTINGS},
        "model": f"{type(trainer.model).__name__} {sum(each.numel() for each in trainer.model.parameters())}"
        if trainer.model is not None
        else "",
        "ranks": args.world_size,
        "began": environ.get(BEGAN, ""),
    }


def describe_setting(value: Any) -> str:
    """Return a setting of the Trainer as text."""
    return str(getattr(value, "value", value))


def describe_data(data: Any) -> str:
    """Return what can be said of data without reading them as a training does, which may draw random numbers.

    How many examples there are; which ones, of a part of others; and of tables the first, middle and last one.
    """
    with contextlib.suppress(Exception):  # no length, or a kind of its own
        count = len(data)
        which = getattr(data, "indices", None)
        if which is not None:
            return f"{count} {crc32(repr(list(which)).encode()):08x}"
        if type(data).__module__ == "datasets.arrow_dataset":
            plain = data.with_format(None)
            rows = [plain[place] for place in sorted({0, count // 2, count - 1})]
            return f"{count} {crc32(repr(rows).encode(errors='replace')):08x}"
        return str(count)
    return ""


def choose(args: Any, mark: Mark, named: Any, environ: Mapping[str, str]) -> Any:
    """Return the checkpoint from which a training goes on, as the Trainer takes it; named: what the script has said."""
    wish, directory = environ.get(RESUME, ""), args.output_dir
    kept = os.path.realpath(environ.get(KEPT) or os.devnull) == os.path.realpath(directory)
    if named and named != ANEW:
        if kept and isinstance(named, str) and os.path.realpath(os.path.dirname(named)) == os.path.realpath(directory):
            keep_steps(args, Path(named))
        return named
    if wish and wish != ANEW and BEGUN[:1] == BEGUN:  # it is that of the first training
        return expand_user(wish, environ.get("HOME", ""))
    if kept:
        return None  # the start has looked there
    found = agree(args, find_last(directory, {**mark, "anew": True} if ANEW in (wish, named) else mark))
    say(args, directory, found)
    if not found.step:
        return None
    place = f"{directory}/{PREFIX}{found.step}"
    keep_steps(args, Path(place))
    return place


def find_last(directory: str, mark: Mark) -> Found:
    """Return the last complete checkpoint of a training in its directory, as this rank sees it."""
    faults: list[str] = []
    trusted = {0, os.getuid(), *([os.stat(directory).st_uid] if os.path.isdir(directory) else [])}
    for step in list_steps(directory):
        place = Path(directory, f"{PREFIX}{step}")
        strange = sorted({*list_owners(directory, step)} - trusted)
        fault = f"belongs to uid {strange[0]}" if strange else tell_apart(read_mark(place), mark)
        try:
            fault = fault or find_damage(place, step) or ""
        except OSError as error:
            fault = f"cannot be read ({error.strerror})"
        if not fault:
            return Found(step, digest_content(directory, step), faults)
        faults.append(f"{place.name} {fault}")
    return NOTHING._replace(faults=faults)


def digest_content(directory: str, step: int) -> str:
    """Return a digest of what the Trainer says in a checkpoint, and of the names and sizes of its files."""
    place = Path(directory, f"{PREFIX}{step}")
    sizes = {str(path.relative_to(place)): measure(path) for path in place.rglob("*") if path.is_file()}
    return f"{digest_state(directory, step)} {crc32(json.dumps(sizes, sort_keys=True).encode()):08x}"


def measure(path: Path) -> int:
    """Return the bytes of a file; -1 for one that this rank may not read, or that has gone meanwhile."""
    try:
        return path.stat().st_size if os.access(path, os.R_OK) else -1
    except OSError:
        return -1


def write_mark(place: Path, mark: Mark) -> None:
    """Write the mark of a checkpoint, whole or not at all."""
    aside = place / f"{FILE}.{os.getpid()}"
    aside.write_text(json.dumps(mark))
    aside.replace(place / FILE)


def read_mark(place: Path) -> Mark:
    """Return the mark of a checkpoint; empty where it has none."""
    with contextlib.suppress(OSError, ValueError), open(place / FILE, "rb") as file:
        mark = parse_json(file.read(LARGEST))
        return mark if isinstance(mark, dict) else {}
    return {}


def tell_apart(there: Mark, here: Mark) -> str:
    """Return why a checkpoint is not of this training, in words that follow its name; empty where it is."""
    if not there:
        return "has no mark of a training"
    if there.get("command") != here["command"]:
        return "is of another command"
    if here.get("anew") and there.get("began") != here["began"]:
        return f"was there before ({RESUME}={ANEW})"
    if there.get("training") != here["training"]:
        return "is of another training of the same script"
    for name in ("data", "model"):
        if there.get(name) != here[name]:
            return f"was trained on other {name}: {there.get(name)}, here {here[name]}"
    settings = there.get("settings")
    before = settings if isinstance(settings, dict) else {}
    changed = next((name for name, value in here["settings"].items() if before.get(name) != value), None)
    return f"has another {changed}: {before.get(changed)}, here {here['settings'][changed]}" if changed else ""


def agree(args: Any, found: Found) -> Found:
    """Return the last checkpoint that any rank has found, once all see it; end all where one does not."""
    best: Found = max(gather(args, found), key=lambda each: each.step)
    if not best.step:
        return found
    late = [rank for rank, seen in enumerate(gather(args, sees(args.output_dir, best))) if not seen]
    if late:
        place = f"{args.output_dir}/{PREFIX}{best.step}"
        value = f"{place}, not seen by rank{'s' * (len(late) > 1)} {', '.join(map(str, late))} in {timeouts.SEEN:g} s"
        remedy = f"mount one directory on all nodes; or {RESUME}={ANEW} begins at step 0 on all of them"
        fault = Fault("not all ranks see the checkpoint from which this training would go on", value, remedy)
        if args.process_index == 0:
            leave(fault)
        time.sleep(timeouts.STRANGER)  # rank 0 says it; what starts ranks ends the others with it
        sys.exit(2)
    return best._replace(faults=found.faults)


def gather(args: Any, mine: Any) -> list[Any]:
    """Return what all ranks have, in their order."""
    if args.world_size == 1 or not dist.is_initialized():
        return [mine]
    all_of_them: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(all_of_them, mine)
    return all_of_them


def sees(directory: str, best: Found) -> bool:
    """Return whether this rank sees a checkpoint, now or after a while."""
    until = time.monotonic() + timeouts.SEEN
    while digest_content(directory, best.step) != best.content:
        if time.monotonic() > until:
            return False
        time.sleep(PAUSE)
        with contextlib.suppress(OSError):
            os.listdir(directory)  # anew, which asks the server of a shared file system
    return True


def say(args: Any, directory: str, found: Found) -> None:
    """Say on rank 0 from where the training goes on, and why not from a later checkpoint."""
    if args.process_index or not (found.step or found.faults):
        return
    then = f"goes on from {directory}/{PREFIX}{found.step}" if found.step else "begins at step 0"
    if found.step and read_trainer_state(Path(directory, f"{PREFIX}{found.step}", STATE)).get(MAX_STEPS) == found.step:
        then += f", where it had ended; {RESUME}={ANEW} trains anew"
    why = f"{found.faults[0]}: " if found.faults else ""
    named = f"; {RESUME}={directory}/{found.faults[0].partition(' ')[0]} goes on from it" if not found.step else ""
    print(f"multinode: {why}{then}{named}", file=sys.stderr, flush=True)


def keep_steps(args: Any, place: Path) -> None:
    """Let a training that goes on with another number of ranks have the steps that it had in all.

    The Trainer computes them from the epochs and the ranks of this start: it would follow another schedule of the
    learning rate (transformers/trainer.py, _init_training_state).
    """
    total = read_trainer_state(place / STATE).get(MAX_STEPS)
    if (
        args.max_steps <= 0
        and read_mark(place).get("ranks") != args.world_size
        and isinstance(total, int)
        and total > 0
    ):
        args.max_steps = total
