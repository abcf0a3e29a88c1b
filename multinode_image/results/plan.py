"""The directory for results of a command, and the run that a task asks for there."""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from multinode_image.errors import Refusal
from multinode_image.facts import Facts
from multinode_image.machine.files import is_path
from multinode_image.machine.image import Stack, release
from multinode_image.machine.places import expand_user
from multinode_image.reading import is_true
from multinode_image.results.identity import FLAG, OUTPUTS, OVERWRITE, digest_files, identify_script, identify_task
from multinode_image.results.record import ANEW, RESULTS, RESUME, Run
from multinode_image.tasks.aliases import find_argument
from multinode_image.tasks.arguments import Program, guess_arguments, load_loosely, set_argument
from multinode_image.tasks.command import PLAIN, SCRIPT, Command
from multinode_image.tasks.defaults import OUTPUT, OUTPUT_DIR
from multinode_image.tasks.table import TRAINER, Task
from multinode_image.tuning.handover import BINDABLE
from multinode_image.world.starters import find_code
from multinode_image.world.torchrun import ID

PUSH = "push_to_hub"
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
    places = (*(find_argument(arguments, name) for name in OUTPUTS), environ.get(RESULTS))
    for value in places if command.kind == SCRIPT else (find_argument(arguments, OUTPUT_DIR),):
        if isinstance(value, str) and value:
            path = expand_user(value, environ.get("HOME", ""))  # as the Trainer does, and a shell where nobody quotes
            return (path if "://" not in path and is_path(path) else None), False
    return (OUTPUT, True) if command.kind == SCRIPT else (None, False)


def find_typed_results(command: Command, environ: Mapping[str, str]) -> str | None:
    """Return the directory for results of what a typed torchrun starts: that of its script without torchrun."""
    code = find_code(command.line)
    script = Command(SCRIPT, code.name, code.words) if code.name else command._replace(kind=SCRIPT)
    return find_results(script, guess_arguments(script.words), environ)[0]


def plan_run(command: Command, program: Program, facts: Facts) -> tuple[Program, Run | None]:
    """Return the run of a task, and its program with what that needs; None for what has no run.

    Raise Refusal for a release of the Trainer that empties the directory.
    """
    task, environ = command.task, facts.environ_with_home
    run = plan_task(command, task, program, environ) if task is not None else None
    if run is None:
        return program, None
    if run.goes_on:
        program = prepare_trainer(program, environ, facts.stack)
    return program, run


def plan_task(command: Command, task: Task, program: Program, environ: Mapping[str, str]) -> Run | None:
    """Return the run of a task; None where it trains nothing."""
    arguments, wish = program.arguments, environ.get(RESUME, "")
    directory, _ = find_results(command, arguments, environ)
    trains = command.trains and (task.kind != TRAINER or is_true(find_argument(arguments, "do_train")))
    if not trains or directory is None:
        return None
    return Run(
        directory,
        command.name,
        known := identify_task(arguments, task.kind),
        resume_from=str(find_argument(arguments, FLAG) or (wish if wish != ANEW else "")),
        overwrite=is_true(find_argument(arguments, OVERWRITE)) or wish == ANEW,
        goes_on=task.kind == TRAINER,
        files=digest_files(known),
    )


def find_script(command: Command) -> tuple[str, list[str]]:
    """Return the user's script that a command line starts, and its arguments; empty for other commands."""
    if command.kind == SCRIPT:
        return command.script
    code = find_code(command.line)
    bindable = command.kind == PLAIN and command.name in BINDABLE
    return (code.name, code.words) if bindable and code.is_script else ("", [])


def prepare_trainer(program: Program, environ: Mapping[str, str], stack: Stack) -> Program:
    """Return the program of a task with what its release needs so that it leaves checkpoints to us."""
    if is_true(find_argument(program.arguments, PUSH)) and release(stack.transformers) < PUSHES_FILES:
        remedy = f"leave --{PUSH} out and upload the results at the end, or an image with transformers 4.32 or later"
        value = f"--{PUSH}, transformers {stack.transformers}"
        raise Refusal("this release empties the directory for results before it pushes to the hub", value, remedy)
    if release(stack.transformers) < LOOKS_ITSELF and not is_true(find_argument(program.arguments, OVERWRITE)):
        program = set_argument(program, OVERWRITE, True)
    return program._replace(defaults=(*program.defaults, *load_loosely(stack, environ)))


# What a job is asked to train, in a variable for its processes: by it two jobs tell that they have met at one port.

# Read by hooks/groups/same_job.py.
VARIABLE = "MULTINODE_WORDS"
MOST = 200  # characters that are shown


def name_words(command: Command, arguments: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with a digest of what is typed on all nodes alike, and the words; none where nobody knows.

    An id that the user gives to the job stands for all of it: words may differ between nodes then.
    """
    if environ.get(ID):
        return {VARIABLE: write_words([("", environ[ID])], ID)}
    name, words = (command.name, command.words) if command.task else find_script(command)
    if not name:
        return {}
    pairs = identify_task(arguments, command.task.kind) if command.task else identify_script(words)
    files = digest_files([("", name), *pairs])
    shown = " ".join(word for flag, value in pairs for word in (flag and f"--{flag}", value) if word)
    return {VARIABLE: write_words([("", name), *pairs, *files.items()], f"{name} {shown}".strip())}


def write_words(pairs: list[tuple[str, str]], shown: str) -> str:
    """Return a digest and what is shown."""
    return f"{crc32(repr(pairs).encode()):08x} {shown[:MOST]}"
