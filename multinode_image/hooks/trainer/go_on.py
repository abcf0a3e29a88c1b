"""Let each training of a Trainer go on from its last checkpoint, without a word in the script.

Each checkpoint has a mark of its training (FILE): the command, which training of the process it is in its directory,
its data and its settings. So the same command goes on, and no fold of a cross-validation, and no other setting of a
search, takes the checkpoint of another one. All ranks look, and all wait until they see the last one that any has seen,
since shared file systems show files late. If one does not, all end.

What a script names itself, as by `resume_from_checkpoint=...`, goes before. A task has a record in its directory
(directory.py): it goes on from the last checkpoint that is its own by that.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from transformers.trainer_callback import TrainerCallback

from multinode_image import timeouts
from multinode_image.errors import EXIT_USER
from multinode_image.hooks.job.one_job import Fault
from multinode_image.hooks.trainer.directory import (
    begin_together,
    end_all,
    find_run,
    gather,
    gather_began,
    hold,
    take_together,
)
from multinode_image.machine.places import expand_user, explain_closed
from multinode_image.reading import as_list, parse_json
from multinode_image.results.checkpoints import PREFIX, STATE, digest_state, find_damage, list_owners, list_steps
from multinode_image.results.checkpoints import find_last as find_last_of
from multinode_image.results.checkpoints import read_object as read_trainer_state
from multinode_image.results.identity import digest_files, identify_script
from multinode_image.results.record import ANEW, RESUME, Run, load_record
from multinode_image.tasks.aliases import list_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE, LARGEST = "_multinode.json", 1 << 16  # in a checkpoint; bytes of it
PAUSE = 0.3  # seconds between two looks
RANDOM = "rng_state"  # in a checkpoint, of each rank (transformers/trainer.py, _save_rng_state)
MAX_STEPS = "max_steps"
TIME = "[0-9]{1,20}"  # nanoseconds since 1970, as text
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


class Offer(NamedTuple):
    """What a rank has found: the step of the last checkpoint, a digest of it, and what is wrong with others."""

    step: int
    content: str
    faults: list[str]


NOTHING = Offer(0, "", [])


class MarkCheckpoints(TrainerCallback):
    """Write the mark of a training into each checkpoint."""

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Write it after all else, on each rank that writes files."""
        if args.should_save and RUNNING:
            with contextlib.suppress(OSError):  # of a search, which has directories of its own
                write_mark(Path(args.output_dir, f"{PREFIX}{state.global_step}"), RUNNING[-1])
            if args.process_index == 0:  # of all nodes that save (save_on_each_node) one has the directory
                take_together(lambda: hold(args.output_dir), 0, 1)


def watch_training(module: Any) -> None:
    """Let every Trainer go on from its last checkpoint; module: transformers.trainer."""
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
        "settings": {name: describe_setting(getattr(args, name_field(args, name), None)) for name in SETTINGS},
        "model": f"{type(trainer.model).__name__} {sum(parameter.numel() for parameter in trainer.model.parameters())}"
        if trainer.model is not None
        else "",
        "ranks": args.world_size,
        "began": (began := gather_began(environ, args.world_size)),
        "line": began[-1],
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
    run = find_run(environ, directory)
    if run is not None:
        return choose_for_task(args, run, mark, named, environ)
    if getattr(args.save_strategy, "value", args.save_strategy) != "no":
        take_together(lambda: hold_for_script(directory), args.process_index, args.world_size)
    if named and named != ANEW:
        return named
    if wish and wish != ANEW and BEGUN[:1] == BEGUN:  # it is that of the first training
        return expand_user(wish, environ.get("HOME", ""))
    last = agree(args, find_last(directory, {**mark, "anew": True} if ANEW in (wish, named) else mark))
    place = go_on_from(args, last)
    if place is not None:
        mark["line"] = read_mark(Path(place)).get("line", "")
    return place


def hold_for_script(directory: str) -> None:
    """Take a directory in which a script has saved before; raise Refusal where it cannot write its checkpoints."""
    for step, strange in find_strangers(directory).items():
        place = f"{directory}/{PREFIX}{step}"
        if strange and not os.access(place, os.W_OK):
            raise explain_closed("a checkpoint of another user is in the way", place)
    hold(directory, only_ours=True)


def find_strangers(directory: str) -> dict[int, list[int]]:
    """Return the step of each checkpoint, the last one first, with its owners that are not trusted with weights."""
    trusted = {0, os.getuid(), *([os.stat(directory).st_uid] if os.path.isdir(directory) else [])}
    return {step: sorted({*list_owners(directory, step)} - trusted) for step in list_steps(directory)}


def choose_for_task(args: Any, run: Run, mark: Mark, named: Any, environ: Mapping[str, str]) -> Any:
    """Return the checkpoint from which a task goes on: its own last one, else that which the user names."""
    begin_together(run, args.process_index, args.world_size, mark["began"])
    if place := go_on_from(args, agree(args, NOTHING if args.process_index else find_recorded(args.output_dir))):
        return place
    named = named or expand_user(run.resume_from, environ.get("HOME", "")) or None
    if isinstance(named, str) and os.path.realpath(os.path.dirname(named)) == os.path.realpath(args.output_dir):
        keep_steps(args, Path(named))
    return named


def go_on_from(args: Any, last: Offer) -> str | None:
    """Return the place of a checkpoint that was found, and say so; None where none was."""
    say(args, args.output_dir, last)
    if not last.step:
        return None
    place = f"{args.output_dir}/{PREFIX}{last.step}"
    keep_steps(args, Path(place))
    return place


def find_recorded(directory: str) -> Offer:
    """Return the last complete checkpoint that is a run's own by its record."""
    record = load_record(directory)
    step, faults = find_last_of(directory, record.filter) if record else (None, [])
    return Offer(step, digest_content(directory, step), faults) if step else NOTHING._replace(faults=faults)


def find_last(directory: str, mark: Mark) -> Offer:
    """Return the last complete checkpoint of a training in its directory, as this rank sees it.

    Where it was begun anew, those since then come first, whatever their steps are.
    """
    faults: list[str] = []
    steps = find_strangers(directory)
    lines = {step: math.inf if strange else find_line(directory, step) for step, strange in steps.items()}
    for step in sorted(steps, key=lambda step: (lines[step], step), reverse=True):
        place, strange = Path(directory, f"{PREFIX}{step}"), steps[step]
        try:
            fault = f"belongs to uid {strange[0]}" if strange else find_fault(place, step, mark)
        except OSError as error:
            fault = f"cannot be read ({error.strerror})"
        if not fault:
            return Offer(step, digest_content(directory, step), faults)
        faults.append(f"{place.name} {fault}")
    return NOTHING._replace(faults=faults)


def find_line(directory: str, step: int) -> float:
    """Return when the training was begun anew of which a checkpoint is; none says so in one that is not whole."""
    line = str(read_mark(Path(directory, f"{PREFIX}{step}")).get("line", ""))
    return int(line) if re.fullmatch(TIME, line) else math.inf


def find_fault(place: Path, step: int, mark: Mark) -> str:
    """Return why a training does not go on from a checkpoint, in words that follow its name; empty where it can."""
    there = read_mark(place)
    if not there:  # it is written last
        return find_damage(place, step) or "has no mark of a training"
    return tell_apart(there, mark) or find_damage(place, step) or ""


def digest_content(directory: str, step: int) -> str:
    """Return a digest of what the Trainer says in a checkpoint, and of the names and sizes of its files.

    But for random states: each node has those of its own ranks, where all save (save_on_each_node).
    """
    place = Path(directory, f"{PREFIX}{step}")
    files = [path for path in place.rglob("*") if path.is_file() and not path.name.startswith(RANDOM)]
    sizes = {str(path.relative_to(place)): measure(path) for path in files}
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
    if there.get("command") != here["command"]:
        return "is of another command"
    if here.get("anew") and not {*map(str, as_list(there.get("began")))} & {*here["began"]}:
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


def agree(args: Any, last: Offer) -> Offer:
    """Return the last checkpoint that any rank has found, once all see it; end all where one does not."""
    best: Offer = max(gather(last, args.world_size), key=lambda rank: rank.step)
    if not best.step:
        return last
    seen = gather(sees(args, best), args.world_size)
    if late := [rank for rank, is_seen in enumerate(seen) if not is_seen]:
        place = f"{args.output_dir}/{PREFIX}{best.step}"
        value = f"{place}, not seen by rank{'s' * (len(late) > 1)} {', '.join(map(str, late))} in {timeouts.SEEN:g} s"
        remedy = f"mount one directory on all nodes; or {RESUME}={ANEW} begins at step 0 on all of them"
        fault = Fault("not all ranks see the checkpoint from which this training would go on", value, remedy)
        end_all(fault, EXIT_USER, args.process_index)
    return best._replace(faults=last.faults)


def sees(args: Any, best: Offer) -> bool:
    """Return whether this rank sees a checkpoint, now or after a while.

    It waits for its own random state too, which each rank writes for itself, but does without it: the Trainer says so.
    """
    directory, until = args.output_dir, time.monotonic() + timeouts.SEEN
    while not (same := digest_content(directory, best.step) == best.content) or not has_random_state(args, best.step):
        if time.monotonic() > until:
            return same
        time.sleep(PAUSE)
        with contextlib.suppress(OSError):
            os.listdir(directory)  # anew, which asks the server of a shared file system
    return True


def has_random_state(args: Any, step: int) -> bool:
    """Return whether the random state of this rank is in a checkpoint that as many ranks have written."""
    place = Path(args.output_dir, f"{PREFIX}{step}")
    name = f"{RANDOM}_{args.process_index}.pth" if args.world_size > 1 else f"{RANDOM}.pth"
    return read_mark(place).get("ranks") != args.world_size or (place / name).exists()


def say(args: Any, directory: str, last: Offer) -> None:
    """Say on rank 0 from where the training goes on, and why not from a later checkpoint."""
    if args.process_index or not (last.step or last.faults):
        return
    then = f"goes on from {directory}/{PREFIX}{last.step}" if last.step else "begins at step 0"
    if last.step and read_trainer_state(Path(directory, f"{PREFIX}{last.step}", STATE)).get(MAX_STEPS) == last.step:
        then += f", where it had ended; {RESUME}={ANEW} trains anew"
    why = f"{last.faults[0]}: " if last.faults else ""
    print(f"multinode: {why}{then}{name_way(directory, last)}", file=sys.stderr, flush=True)


def name_way(directory: str, last: Offer) -> str:
    """Return how the last checkpoint can be gone on from all the same; empty where it is damaged, or another one is."""
    name = last.faults[0].partition(" ")[0] if last.faults and not last.step else ""
    with contextlib.suppress(OSError):
        if name and not find_damage(Path(directory, name), int(name[len(PREFIX) :])):
            return f"; {RESUME}={directory}/{name} goes on from it"
    return ""


def keep_steps(args: Any, place: Path) -> None:
    """Let a training that goes on with another number of ranks have the steps that it had in all.

    The Trainer computes them from the epochs and the ranks of this start: it would follow another schedule of the
    learning rate (transformers/trainer.py, _init_training_state).
    """
    total, field = read_trainer_state(place / STATE).get(MAX_STEPS), name_field(args, MAX_STEPS)
    if (
        getattr(args, field, -1) <= 0
        and read_mark(place).get("ranks") != args.world_size
        and isinstance(total, int)
        and total > 0
    ):
        setattr(args, field, total)


def name_field(args: Any, name: str) -> str:
    """Return what a setting of the Trainer is called in this release."""
    return next((alias for alias in list_names(name) if hasattr(args, alias)), name)
