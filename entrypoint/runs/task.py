"""The run of a task: what its command line and its variables need to go on from the last checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable

from entrypoint.errors import Refusal
from entrypoint.machine.files import read_file
from entrypoint.machine.image import release
from entrypoint.numbers import is_true
from entrypoint.runs.output import Role, Run, check_run, make_run
from entrypoint.runs.rank import RESUME
from entrypoint.runs.record import FLAG, compare, describe, find_last, read_record
from entrypoint.settings import Setting
from entrypoint.tasks import job as jobs
from entrypoint.tasks.aliases import spell_out
from entrypoint.tasks.arguments import Program, find_output, read_given, set_argument
from entrypoint.tasks.command import load_loosely
from entrypoint.tasks.table import ACCELERATE, TRAINER, find_task
from entrypoint.tuning.starters import RANK
from entrypoint.world.model import ALONE, TORCHRUN, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.image import Stack

OVERWRITE, PUSH = "overwrite_output_dir", "push_to_hub"
# Before this release a script looks for checkpoints itself: it takes a half-written one, and refuses a directory with
# any file in it (examples/pytorch/*/run_*.py). With OVERWRITE it does neither.
LOOKS_ITSELF = (5, 0)
# Before this release the Trainer clones the repository that it pushes to into the directory for results. It empties
# that for the clone if it may overwrite it, and fails if it may not (transformers/trainer.py, init_git_repo).
PUSHES_FILES = (4, 32)
# From here on the Trainer reads no state of an optimizer with a torch before 2.6
# (transformers/utils/import_utils.py, check_torch_load_is_safe; huggingface/transformers#37785).
REFUSES_OLD_TORCH, OLD_TORCH = (4, 52), (2, 6)
# In between, a Trainer that goes on takes --per_device_train_batch_size from the checkpoint, but not the steps by which
# that is multiplied (transformers/trainer.py, train; huggingface/transformers#27568 and #43770).
KEEPS_PARTS, TAKES_PARTS = (4, 36), (5, 2)


def prepare_run(
    job: jobs.Job, program: Program, world: World, environ: Mapping[str, str], stack: Stack
) -> tuple[Program, Run | None]:
    """Return a program that goes on from the last checkpoint of its run, and the run; None where nothing is trained.

    Raise Refusal if the directory for results holds another run.
    """
    directory = find_output(program.given) if job.kind == jobs.TASK and job.trains else None
    trainer = job.kind == jobs.TASK and find_task(job.name).kind == TRAINER
    if directory is None or (trainer and not is_true(program.given.get("do_train"))):
        return program, None
    if trainer and is_true(program.given.get(PUSH)) and release(stack.transformers) < PUSHES_FILES:
        remedy = f"leave --{PUSH} out and upload {directory} at the end, or an image with transformers 4.32 or later"
        value = f"--{PUSH}, transformers {stack.transformers}"
        raise Refusal("this release empties the directory for results before it pushes to the hub", value, remedy)
    typed = read_given(job.words, read_file, strict=True)
    run = make_run(directory, job.name, program.given, world, environ)
    keeps_parts = KEEPS_PARTS <= release(stack.transformers) < TAKES_PARTS
    run = choose_begin(run._replace(splits=not keeps_parts), typed, trainer)
    check_run(run)
    if run.resumes and refuses_checkpoints(stack):
        notes = [] if program.given.get(FLAG) else [warn_refused(stack)]
        run, program = run._replace(resumes=False), program._replace(notes=[*program.notes, *notes])
    if trainer and release(stack.transformers) < LOOKS_ITSELF and not is_true(program.given.get(OVERWRITE)):
        program = set_argument(job.name, program, OVERWRITE, True)
    if trainer:
        program = program._replace(defaults=(*program.defaults, *load_loosely(stack, environ)))
    return (resume(run, program, world, os.path.exists) if run.resumes else program), run


def choose_begin(run: Run, typed: Mapping[str, object], trainer: bool) -> Run:
    """Return a run with where it begins; typed: the arguments without defaults; trainer: whether its script has it.

    A container that is started again repeats the checkpoint that was typed for it, and goes on from what it has written
    since. Ranks that torchrun starts again do so too, unless nobody can tell yet which node writes the record of that.
    """
    overwrites = any(spell_out(name) == OVERWRITE and is_true(value) for name, value in typed.items())
    chosen = run.given.get(FLAG)  # the Trainer's own dump of its arguments has null
    if chosen is None:
        return run._replace(anew=overwrites, resumes=trainer)
    old, new = read_record(run.directory), describe(run.task, run.given, run.directory)
    repeats = (
        trainer and old is not None and old.begins_at == new.begins_at and not compare(old, new, splits=run.splits)
    )
    resumes = trainer and (repeats or run.role is not Role.CANDIDATE)
    return run._replace(anew=overwrites or not repeats, resumes=resumes)


def refuses_checkpoints(stack: Stack) -> bool:
    """Return whether the Trainer of this image ends with an error where it is to go on from a checkpoint."""
    return release(stack.transformers) >= REFUSES_OLD_TORCH and release(stack.torch) < OLD_TORCH


def warn_refused(stack: Stack) -> str:
    """Return the note that a run begins at step 0 whenever it is started."""
    pair = f"transformers {stack.transformers} loads no checkpoint with torch {stack.torch}"
    return f"{pair}, so each start of this run begins at step 0: an image with torch 2.6 or later goes on"


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


def resume(run: Run, program: Program, world: World, exists: Callable[[str], bool]) -> Program:
    """Return the program with the last checkpoint, or with variables by which each rank looks for it."""
    ranks = world.launcher == TORCHRUN or (world.launcher == ALONE and world.sizes[1] > 1)
    if ranks and exists(RANK):
        why = "each start of a rank looks for the last checkpoint"
        variables = (*program.typed, Setting(RESUME, run.directory, why))
        return program._replace(typed=variables, defaults=(*program.defaults, Setting("PYTHON_EXEC", RANK, why)))
    if run.anew:
        return program
    if world.rank is not None and world.several_nodes:  # carry_out.py starts it
        why = "all ranks look together for the last checkpoint"
        return program._replace(typed=(*program.typed, Setting(RESUME, run.directory, why)))
    last, note = find_last(run.directory)
    program = program._replace(notes=[*program.notes, *([note] if note else [])])
    if last is None:
        return program
    from entrypoint.runs.steps import keep_steps  # the first start of a run pays nothing for it

    program = set_argument(run.task, program, FLAG, f"{run.directory}/{last.name}")
    program, note = keep_steps(run.task, program, run.directory, last.name, world.sizes[1])
    return program._replace(notes=[*program.notes, *([note] if note else [])])
