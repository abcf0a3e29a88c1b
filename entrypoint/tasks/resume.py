"""Go on from the last checkpoint of a run: a task's, or that of a user's script which reads MULTINODE_RESUME.

A run is a program, its arguments and its directory for results. What it was started with is left in the directory, in
`_multinode` (what begins with `_` is not uploaded: transformers/trainer.py, push_to_hub), so that

- the same command goes on from its last whole checkpoint, and never from one that was there before it;
- another run is refused there, and so is a second job at the same time (machine/shared.py has what that cannot see);
- ranks on several nodes go on from one step: rank 0 chooses it, and the others show that they see its directory
  (rendezvous/agree.py). Where not all do, all begin at step 0.

`plan_run` says what is asked, and touches nothing. `open_run` does it right before the command starts, and
`resume_rank` in each rank that torchrun starts, again after one has died: torchrun repeats its first command line.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from entrypoint.errors import EXIT_OUTSIDE, Refusal
from entrypoint.machine.files import is_path, read_file, read_text, write_in_private
from entrypoint.machine.image import release
from entrypoint.machine.places import expand_user
from entrypoint.machine.shared import Busy, Shared, make_shared, open_shared
from entrypoint.numbers import is_true
from entrypoint.printing.secrets import hide_text, is_secret
from entrypoint.printing.streams import quote
from entrypoint.rendezvous.agree import agree, tell_refused
from entrypoint.settings import Setting
from entrypoint.tasks.aliases import spell_out
from entrypoint.tasks.arguments import Program, read_given, set_argument
from entrypoint.tasks.argv import load_loosely
from entrypoint.tasks.checkpoints import PREFIX, STATE, digest_state, find_last, list_steps, read_object
from entrypoint.tasks.command import PLAIN, SCRIPT, TASK, Command
from entrypoint.tasks.defaults import OUTPUT, OUTPUT_DIR
from entrypoint.tasks.table import ACCELERATE, TRAINER, find_task
from entrypoint.tuning.bind import BINDABLE, RANK
from entrypoint.tuning.starters import find_code, find_starter
from entrypoint.world.model import ALONE, TORCHRUN, World, read_job_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from entrypoint.machine.image import Stack

STATE_DIRECTORY, RECORD = "_multinode", "run.json"
FLAG, OVERWRITE, PUSH, MAX_STEPS = "resume_from_checkpoint", "overwrite_output_dir", "push_to_hub", "max_steps"
# What a user's script reads, and where it writes if its arguments do not say so; what `no` says in the former.
RESUME, RESULTS, ANEW = "MULTINODE_RESUME", "MULTINODE_OUTPUT", "no"
OUTPUTS = (OUTPUT_DIR, "out_dir", "save_dir", "results_dir")
# By this variable a rank of torchrun knows how its checkpoint is handed over, and the directory: `flag:/workspace/...`.
RUN = "MULTINODE_RUN"
AS_FLAG, AS_VARIABLE, NEVER = "flag", "variable", "never"
# Seconds until a job that is just ending has freed its directory.
PATIENCE = 20.0
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
# Before this release a script looks for checkpoints itself: it takes a half-written one, and refuses a directory with
# any file in it (examples/pytorch/*/run_*.py). With OVERWRITE it does neither.
LOOKS_ITSELF = (5, 0)
# Before this release the Trainer empties the directory for results for a clone of the repository that it pushes to
# (transformers/trainer.py, init_git_repo).
PUSHES_FILES = (4, 32)
# From here on the Trainer reads no state of an optimizer with a torch before 2.6
# (transformers/utils/import_utils.py, check_torch_load_is_safe; huggingface/transformers#37785).
REFUSES_OLD_TORCH, OLD_TORCH = (4, 52), (2, 6)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """A training and its directory for results.

    resume_from: a checkpoint that the user names; overwrite: whether he wants nothing of what is there; handover: how
    its program gets a checkpoint; starts: whether torchrun starts its ranks.
    """

    directory: str
    task: str
    arguments: Mapping[str, str]
    resume_from: str
    overwrite: bool
    handover: str
    starts: bool


@dataclass(frozen=True)
class Record:
    """What a run has left: its program and arguments, and the checkpoint that was named.

    before: digests of the checkpoints that were there before it, by their steps; a copy of the directory has them, too.
    """

    task: str
    arguments: Mapping[str, str]
    resume_from: str = ""
    before: Mapping[str, str] = field(default_factory=dict)


def find_results(command: Command, given: Mapping[str, object], environ: Mapping[str, str]) -> tuple[str | None, bool]:
    """Return the directory for results, and whether it is only the usual one, of which nobody has spoken.

    None for a URL, what cannot be a path, and for a command that trains nothing.
    """
    own = (*(given.get(name) for name in OUTPUTS), environ.get(RESULTS))
    for value in own if command.kind == SCRIPT else (given.get(OUTPUT_DIR),):
        if isinstance(value, str) and value:
            path = expand_user(value, environ.get("HOME", ""))  # as the Trainer does, and a shell where nobody quotes
            return (path if "://" not in path and is_path(path) else None), False
    return (OUTPUT, True) if command.kind == SCRIPT else (None, False)


def plan_run(
    command: Command, program: Program, world: World, environ: Mapping[str, str], stack: Stack
) -> tuple[Program, Run | None]:
    """Return the run of a job, and its program with what that needs; None for what has no run.

    Raise Refusal for a release of the Trainer that empties the directory.
    """
    run = plan_task(command, program, world, environ) if command.kind == TASK else plan_script(command, world, environ)
    if run is None:
        return program, None
    if command.kind == TASK and find_task(command.name).kind == TRAINER:
        program = prepare_trainer(command.name, program, environ, stack)
    if run.handover != NEVER and release(stack.transformers) >= REFUSES_OLD_TORCH and release(stack.torch) < OLD_TORCH:
        pair = f"transformers {stack.transformers} loads no checkpoint with torch {stack.torch}"
        note = f"{pair}, so each start of this run begins at step 0: an image with torch 2.6 or later goes on"
        program = program._replace(notes=[*program.notes, *([] if run.resume_from else [note])])
        run = replace(run, handover=NEVER)
    if run.handover == AS_VARIABLE:
        why = "the checkpoint to go on from; a start sets it if there is one"
        program = program._replace(typed=(*program.typed, Setting(RESUME, run.resume_from, why)))
    if run.starts:
        why = "each start of a rank looks for the last checkpoint"
        program = program._replace(
            typed=(*program.typed, Setting(RUN, f"{run.handover}:{run.directory}", why)),
            defaults=(*program.defaults, Setting("PYTHON_EXEC", RANK, why)),
        )
    return program, run


def plan_task(command: Command, program: Program, world: World, environ: Mapping[str, str]) -> Run | None:
    """Return the run of a task; None where it trains nothing."""
    given, task = program.given, find_task(command.name)
    directory, _ = find_results(command, given, environ)
    if not command.trains or directory is None or (task.kind == TRAINER and not is_true(given.get("do_train"))):
        return None
    typed = read_given(command.words, read_file, strict=True)
    overwrite = any(spell_out(name) == OVERWRITE and is_true(value) for name, value in typed.items())
    resume_from, handover = str(given.get(FLAG) or ""), AS_FLAG if task.takes_checkpoint else NEVER
    return Run(
        directory, command.name, select_arguments(given), resume_from, overwrite, handover, starts_ranks(command, world)
    )


def plan_script(command: Command, world: World, environ: Mapping[str, str]) -> Run | None:
    """Return the run of a user's script that reads the variable for it; None for any other.

    Whatever starts ranks elsewhere hands them no variable that is right there.
    """
    script, words = find_script(command)
    starts = starts_ranks(command, world)
    if RESUME not in (read_file(script) or "") or (world.several_nodes and world.rank is None and not starts):
        return None
    given = read_given(words, read_file, strict=False)
    directory, _ = find_results(Command(SCRIPT, script, words), given, environ)
    if directory is None:
        return None
    asked = environ.get(RESUME, "")
    overwrite, name = asked == ANEW, os.path.basename(script)
    return Run(directory, name, select_arguments(given), "" if overwrite else asked, overwrite, AS_VARIABLE, starts)


def find_script(command: Command) -> tuple[str, list[str]]:
    """Return the user's script that a command line starts, and its arguments; empty for other commands."""
    if command.kind == SCRIPT:
        return command.name, command.words
    if command.kind != PLAIN or command.name not in BINDABLE:
        return "", []
    starter, words = find_starter([command.name, *command.words])
    if not starter:
        letter, _, words = find_code(words)
        words = [] if letter else words
    place = next((place for place, word in enumerate(words) if word.endswith(".py")), None)
    if place is None or starter not in ("", TORCHRUN):
        return "", []
    return words[place], words[place + 1 :]


def starts_ranks(command: Command, world: World) -> bool:
    """Return whether torchrun starts the ranks of a job, by our program that takes the place of Python."""
    if world.rank is not None or not os.path.exists(RANK):
        return False
    typed = command.kind == PLAIN and find_starter([command.name, *command.words])[0] == TORCHRUN
    return typed or (
        command.trains and (world.launcher == TORCHRUN or (world.launcher == ALONE and world.sizes[1] > 1))
    )


def prepare_trainer(name: str, program: Program, environ: Mapping[str, str], stack: Stack) -> Program:
    """Return the program of a task with what its release needs so that it leaves checkpoints to us."""
    if is_true(program.given.get(PUSH)) and release(stack.transformers) < PUSHES_FILES:
        remedy = f"leave --{PUSH} out and upload the results at the end, or an image with transformers 4.32 or later"
        value = f"--{PUSH}, transformers {stack.transformers}"
        raise Refusal("this release empties the directory for results before it pushes to the hub", value, remedy)
    if release(stack.transformers) < LOOKS_ITSELF and not is_true(program.given.get(OVERWRITE)):
        program = set_argument(name, program, OVERWRITE, True)
    return program._replace(defaults=(*program.defaults, *load_loosely(stack, environ)))


def select_arguments(given: Mapping[str, object]) -> dict[str, str]:
    """Return the arguments by which a run is known: those that change the training, without secrets."""
    return {
        name: hide_text(str(value))
        for name, value in given.items()
        if not (name in NO_EFFECT or name.startswith(NO_EFFECT_PREFIXES) or is_secret(name, str(value)))
    }


def saves_ranks(kind: str, given: Mapping[str, object], is_there: bool) -> bool:
    """Return whether ranks other than 0 write into the directory for results, or make it where it is not there.

    Each rank leaves its random state in every checkpoint (transformers/trainer.py, _save_rng_state;
    accelerate/checkpointing.py). With accelerate the model is saved by a call of all ranks, which makes the directory
    on each of them (transformers/modeling_utils.py, save_pretrained).
    """
    if kind == TRAINER:
        without = given.get("save_strategy") == "no" or is_true(given.get("save_only_model"))
        return is_true(given.get("do_train")) and not without
    return kind == ACCELERATE and (not is_there or "checkpointing_steps" in given)


def open_run(
    run: Run, argv: list[str], world: World, environ: Mapping[str, str], say: Say
) -> tuple[list[str], dict[str, str]]:
    """Take the directory of a run; return the command line and the variables with which it goes on.

    Raise Refusal if another job writes there, or it holds another run.
    """
    with tell_others(run.handover, world, environ):
        with open_shared(f"{run.directory}/{STATE_DIRECTORY}") as own:
            old = read_record(own)
        is_first = not world.rank and not world.node_rank
        # A node with a directory of its own has parts of checkpoints, and the record is where rank 0 is.
        if is_first or old is not None:
            check_run(run, old)
        if is_first:
            begin(run, world, say)
    return (argv, {}) if run.starts else hand_over(run.handover, run.directory, argv, world, environ, say)


def begin(run: Run, world: World, say: Say) -> None:
    """Take the lock of the directory where rank 0 is, or may be, and leave the record of the run.

    A process that becomes torchrun lets the lock go: rank 0 takes it again, wherever that will be.
    """
    elastic = world.several_nodes and world.rank is None and world.node_rank is None
    with make_shared(f"{run.directory}/{STATE_DIRECTORY}") as own:
        try:
            lock = own.lock(0 if elastic else PATIENCE)
        except Busy:
            if not elastic:
                raise
            return  # ranks of this job are at work, which this node joins late; or another job, as rank 0 will find
        if lock is None:
            say(f"{run.directory} is on a file system without locks: two jobs at once are not noticed there")
        old = read_record(own)
        check_run(run, old)
        if old is None or is_new(run, old):
            before = {str(step): digest_state(run.directory, step) for step in list_steps(run.directory)}
            record = Record(run.task, run.arguments, run.resume_from, before)
            own.write(RECORD, json.dumps(asdict(record), indent=1, sort_keys=True))
    if lock is not None and run.starts:
        os.close(lock)


def resume_rank(
    words: list[str], environ: Mapping[str, str], world: World, say: Say
) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the variables of a rank that torchrun starts, with the last checkpoint of its run."""
    handover, _, directory = environ.get(RUN, "").partition(":")
    if not directory:
        return words, {}
    if not world.rank:
        with tell_others(handover, world, environ), make_shared(f"{directory}/{STATE_DIRECTORY}") as own:
            own.lock(PATIENCE)
    return hand_over(handover, directory, words, world, environ, say)


@contextlib.contextmanager
def tell_others(handover: str, world: World, environ: Mapping[str, str]) -> Iterator[None]:
    """Tell the ranks that wait for this one on other nodes if it is refused."""
    try:
        yield
    except (Refusal, OSError) as error:
        if world.rank is not None and world.several_nodes and handover != NEVER:
            code = error.code if isinstance(error, Refusal) else EXIT_OUTSIDE
            tell_refused(world, read_job_name(environ), getattr(error, "note", str(error)), code)
        raise


def hand_over(
    handover: str, directory: str, words: list[str], world: World, environ: Mapping[str, str], say: Say
) -> tuple[list[str], dict[str, str]]:
    """Return a command line and variables with the checkpoint that all ranks go on from."""
    step = None if handover == NEVER else choose_together(directory, world, read_job_name(environ), say)
    if handover == AS_VARIABLE:
        return words, {RESUME: environ.get(RESUME, "") if step is None else f"{directory}/{PREFIX}{step}"}
    return (words if step is None else add_flags(words, directory, step, world, say)), {}


def choose_together(directory: str, world: World, command: str, say: Say) -> int | None:
    """Return the step from which all ranks go on; None where they begin at step 0."""
    if world.rank and world.several_nodes:
        return read_offer(agree(world, command, "", partial(sees_token, directory)))
    step, note = find_step(directory)
    if world.several_nodes:
        with leave_token(directory) if step is not None else contextlib.nullcontext("") as token:
            agreed = read_offer(agree(world, command, "" if step is None else f"{step} {token}", lambda _: True))
        if agreed != step:
            why = "not all nodes see this directory, so all ranks begin at step 0"
            note = f"{directory}/{PREFIX}{step} is not used: {why}; to go on from it, mount one directory on all nodes"
            step = None
    if note and not world.rank:
        say(note)
    return step


@contextlib.contextmanager
def leave_token(directory: str) -> Iterator[str]:
    """Leave a file for a moment whose name nobody knows who does not see this directory."""
    token = f"here.{os.urandom(16).hex()}"
    with make_shared(f"{directory}/{STATE_DIRECTORY}") as own:
        own.write(token, "")
        try:
            yield token
        finally:
            own.remove(token)


def sees_token(directory: str, offer: str) -> bool:
    """Return whether this rank sees the file that rank 0 has left for it."""
    with open_shared(f"{directory}/{STATE_DIRECTORY}") as own:
        return own is not None and own.has(offer.partition(" ")[2])


def read_offer(offer: str) -> int | None:
    """Return the step in an offer, which may come from anybody; None in an empty one."""
    step = offer.partition(" ")[0]
    return int(step) if step.isdecimal() else None


def find_step(directory: str) -> tuple[int | None, str]:
    """Return the step of the last whole checkpoint of the run in a directory, and a note for the log."""
    with open_shared(f"{directory}/{STATE_DIRECTORY}") as own:
        record = read_record(own)
    if record is None:
        return None, ""
    step, faults = find_last(directory, record.before)
    then = "begins at step 0" if step is None else f"goes on from {directory}/{PREFIX}{step}"
    if not faults:
        return step, "" if step is None else then
    others = f" and {len(faults) - 1} others" if len(faults) > 1 else ""  # with --save_only_model all have one
    return step, f"{faults[0]}{others}: {then}"


def add_flags(words: list[str], directory: str, step: int, world: World, say: Say) -> list[str]:
    """Return the command line of a task with a checkpoint, and with the steps that the run has in all.

    The Trainer counts in steps, and computes how many there are from the epochs and the ranks of this start. Another
    number of ranks would follow another schedule of the learning rate (transformers/trainer.py, _init_training_state).
    """
    place = f"{directory}/{PREFIX}{step}"
    begin = next((number for number, word in enumerate(words) if word.endswith(".py")), 0)
    given = read_given(words[begin + 1 :], read_text, strict=False)
    program = set_argument(FLAG, Program(words[begin:], [], given), FLAG, place)
    total = read_object(Path(place, STATE)).get(MAX_STEPS)
    if str(given.get(MAX_STEPS) or "-1").strip().startswith("-") and isinstance(total, int) and total > 0:
        program = set_argument(FLAG, program, MAX_STEPS, total)
        wrote, ranks = max(1, sum(name.startswith("rng_state_") for name in os.listdir(place))), world.sizes[1]
        if wrote != ranks and not world.rank:
            then = f"the training keeps its {total} steps, and each takes the examples of {ranks}"
            say(f"{PREFIX}{step} has the states of {wrote} ranks: {then}; for another end: --{MAX_STEPS} N")
    for path, text in program.files.items():
        write_in_private(path, text)
    return [*words[:begin], *program.words]


def read_record(own: Shared | None) -> Record | None:
    """Return the record in our directory; None if there is none, or none that can be read."""
    try:
        found = json.loads((own.read(RECORD) if own else None) or "")
        arguments, before = (
            {str(name): str(each) for name, each in found[key].items()} for key in ("arguments", "before")
        )
        return Record(str(found["task"]), arguments, str(found["resume_from"]), before)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def is_new(run: Run, old: Record) -> bool:
    """Return whether a run begins here; one that names the same checkpoint at each start goes on."""
    return run.overwrite or run.resume_from not in ("", old.resume_from) or bool(compare(run, old))


def compare(run: Run, old: Record) -> list[str]:
    """List the arguments in which a run differs from what was there, as they are typed."""
    if run.task != old.task:
        return [f"{old.task} there, {run.task} here"]
    names = sorted({*old.arguments, *run.arguments})
    values = [(name, old.arguments.get(name, "not set"), run.arguments.get(name, "not set")) for name in names]
    return [f"--{name} {before} there, {now} here" for name, before, now in values if before != now]


def check_run(run: Run, old: Record | None) -> None:
    """Raise Refusal if the directory holds results of another run, which this one would take for its own."""
    names = os.listdir(run.directory) if os.path.isdir(run.directory) else []
    there, steps = sorted(name for name in names if name not in IGNORED), list_steps(run.directory)
    differences = ["it left no record of its arguments"] if old is None else compare(run, old)
    if run.overwrite or run.resume_from or not differences or not (steps if old is None else there):
        return
    last = f"{PREFIX}{steps[0]}" if steps else there[0]
    value = f"{run.directory} with {last}: {', '.join(differences)}"
    if run.handover == AS_VARIABLE:
        ways = [f"{RESULTS}=ANOTHER, or the argument of the script", f"{RESUME}={ANEW} to begin anew there"]
    else:
        ways = [f"--{OUTPUT_DIR} ANOTHER", f"--{OVERWRITE} to begin anew there"]
    step, _ = find_last(run.directory, {})
    if step is not None:
        place = quote(f"{run.directory}/{PREFIX}{step}")
        ways.append(f"{RESUME}={place}" if run.handover == AS_VARIABLE else f"--{FLAG} {place}")
    raise Refusal("the directory for results holds another run", value, ", or ".join(ways))
