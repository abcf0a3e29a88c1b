"""The directory for results of a command, and the run that it asks for there: a task's, or that of a user's script."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from multinode_image.errors import Refusal
from multinode_image.facts import Facts
from multinode_image.machine.files import is_path
from multinode_image.machine.image import Stack, release
from multinode_image.machine.places import expand_user
from multinode_image.numbers import is_true
from multinode_image.results.identity import FLAG, OUTPUTS, OVERWRITE, digest_files, identify_script, identify_task
from multinode_image.results.record import ANEW, AS_FLAG, AS_VARIABLE, KEPT, NEVER, RESULTS, RESUME, Run
from multinode_image.results.resume import RUN
from multinode_image.settings import Setting
from multinode_image.tasks.arguments import Program, guess_arguments, set_argument
from multinode_image.tasks.argv import load_loosely
from multinode_image.tasks.command import PLAIN, SCRIPT, Command
from multinode_image.tasks.defaults import OUTPUT, OUTPUT_DIR
from multinode_image.tasks.table import TRAINER, Task
from multinode_image.tuning.handover import BINDABLE, RANK_PROGRAM
from multinode_image.world.model import TORCHRUN, World
from multinode_image.world.starters import find_code

PUSH = "push_to_hub"
# How a script reads the variable; what is behind a # does not count.
READS = re.compile(rf"^[^#\n]*[\"']{RESUME}[\"']", re.MULTILINE)
# Before this release a script looks for checkpoints itself: it takes a half-written one, and refuses a directory with
# any file in it (examples/pytorch/*/run_*.py). With OVERWRITE it does neither.
LOOKS_ITSELF = (5, 0)
# Before this release the Trainer empties the directory for results for a clone of the repository that it pushes to
# (transformers/trainer.py, init_git_repo).
PUSHES_FILES = (4, 32)


def find_results(
    command: Command, arguments: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[str | None, bool]:
    """Return the directory for results, and whether it is only the usual one, of which nobody has spoken.

    None for a URL, what cannot be a path, and for a command that trains nothing.
    """
    own = (*(arguments.get(name) for name in OUTPUTS), environ.get(RESULTS))
    for value in own if command.kind == SCRIPT else (arguments.get(OUTPUT_DIR),):
        if isinstance(value, str) and value:
            path = expand_user(value, environ.get("HOME", ""))  # as the Trainer does, and a shell where nobody quotes
            return (path if "://" not in path and is_path(path) else None), False
    return (OUTPUT, True) if command.kind == SCRIPT else (None, False)


def plan_run(
    command: Command, program: Program, world: World, facts: Facts, *, starts: bool
) -> tuple[Program, Run | None]:
    """Return the run of a command, and its program with what that needs; None for what has no run.

    starts: whether torchrun starts the ranks. Raise Refusal for a release of the Trainer that empties the directory.
    """
    environ, starts = facts.environ_with_home, starts and world.rank is None and os.path.exists(RANK_PROGRAM)
    if command.task is not None:
        run = plan_task(command, command.task, program, environ, starts=starts)
    else:
        run = plan_script(command, world, facts, starts=starts)
    if run is None:
        return program, None
    if command.task is not None and command.task.kind == TRAINER:
        program = prepare_trainer(program, environ, facts.stack)
    forced = [*program.forced, Setting(KEPT, run.directory, "where the start has looked for a checkpoint")]
    if run.handover == AS_VARIABLE:
        forced.append(Setting(RESUME, run.resume_from, "the checkpoint to go on from; a start sets it if there is one"))
    if run.starts:
        where = f"{run.handover}:{run.directory}"
        forced.append(Setting(RUN, where, "each start of a rank looks for the last checkpoint"))
    return program._replace(forced=tuple(forced)), run


def plan_task(
    command: Command, task: Task, program: Program, environ: Mapping[str, str], *, starts: bool
) -> Run | None:
    """Return the run of a task; None where it trains nothing."""
    arguments = program.arguments
    directory, _ = find_results(command, arguments, environ)
    if not command.trains or directory is None or (task.kind == TRAINER and not is_true(arguments.get("do_train"))):
        return None
    resume_from, handover = str(arguments.get(FLAG) or ""), AS_FLAG if task.takes_checkpoint else NEVER
    overwrite, known = is_true(arguments.get(OVERWRITE)), identify_task(arguments, task.kind)
    return Run(directory, command.name, known, resume_from, overwrite, handover, starts, digest_files(known))


def plan_script(command: Command, world: World, facts: Facts, *, starts: bool) -> Run | None:
    """Return the run of a user's script that reads the variable for it; None for any other.

    Whatever starts ranks elsewhere hands them no variable that is right there.
    """
    environ, (script, words) = facts.environ_with_home, find_script(command)
    if not READS.search(facts.read_script(script)) or (world.several_nodes and world.rank is None and not starts):
        return None
    arguments = guess_arguments(words)
    directory, _ = find_results(Command(SCRIPT, script, words), arguments, environ)
    if directory is None:
        return None
    wish = environ.get(RESUME, "")
    overwrite, name = wish == ANEW, os.path.basename(script)
    resume_from, known = "" if overwrite else wish, identify_script(words)
    return Run(directory, name, known, resume_from, overwrite, AS_VARIABLE, starts, digest_files(known))


def find_script(command: Command) -> tuple[str, list[str]]:
    """Return the user's script that a command line starts, and its arguments; empty for other commands."""
    if command.kind == SCRIPT:
        return command.script
    code = find_code(command.line)
    bindable = command.kind == PLAIN and command.name in BINDABLE and code.program in ("", TORCHRUN)
    return (code.name, code.words) if bindable and code.is_script else ("", [])


def prepare_trainer(program: Program, environ: Mapping[str, str], stack: Stack) -> Program:
    """Return the program of a task with what its release needs so that it leaves checkpoints to us."""
    if is_true(program.arguments.get(PUSH)) and release(stack.transformers) < PUSHES_FILES:
        remedy = f"leave --{PUSH} out and upload the results at the end, or an image with transformers 4.32 or later"
        value = f"--{PUSH}, transformers {stack.transformers}"
        raise Refusal("this release empties the directory for results before it pushes to the hub", value, remedy)
    if release(stack.transformers) < LOOKS_ITSELF and not is_true(program.arguments.get(OVERWRITE)):
        program = set_argument(program, OVERWRITE, True)
    return program._replace(defaults=(*program.defaults, *load_loosely(stack, environ)))
