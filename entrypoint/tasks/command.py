"""The command that is exec'd: a list of words, never a shell's line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import WORLD, Refusal
from entrypoint.machine.files import private_path, read_file, which
from entrypoint.machine.image import names_itself, release
from entrypoint.machine.places import expand_user
from entrypoint.settings import Setting
from entrypoint.tasks import job as jobs
from entrypoint.tasks.task import ACCELERATE, TRAINER, place_script
from entrypoint.tasks.tasks import TASKS
from entrypoint.world.model import ALONE, MPIJOB_WORKER, PORT, TORCHRUN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.image import Stack
    from entrypoint.world.model import World

PYTHON = "python3"
# Our images have a program of that name here, which calls the entrypoint: a pod's `command` replaces the entrypoint.
FRONT = "/usr/local/sbin"
# What --use_cpu says to the Trainer; without either, accelerate trains every rank alone since 1.13.
ON_CPU = (Setting("ACCELERATE_USE_CPU", "1", "without it accelerate counts no ranks on a CPU"),)
# Since 2.6 torch loads numbers of numpy from a checkpoint only if it is told to, as the Trainer does since 4.47
# (transformers/trainer.py, safe_globals); older ones load everything.
LOADS_SAFELY, IS_STRICT = (4, 47), (2, 6)
LOOSE = Setting("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1", "this transformers cannot load its own checkpoints otherwise")
# The user's own; torch takes only one of the two.
STRICT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


class Program(NamedTuple):
    """A Python script with its arguments, a note on each one that was translated, and the arguments by name.

    typed: variables in place of flags that the user typed; defaults: variables for what has no flag; files: private
    files that the script gets, by path.
    """

    words: list[str]
    notes: list[str]
    given: Mapping[str, object]
    typed: tuple[Setting, ...] = ()
    defaults: tuple[Setting, ...] = ()
    files: Mapping[str, str] = {}


def read_program(job: jobs.Job, stack: Stack, root: str, *, many: bool) -> Program:
    """Return the script of a job with complete arguments, any other command as it stands."""
    if job.helps:
        script = f"{root}/smoke.py" if job.kind == jobs.SMOKE else place_script(job.name, TASKS[job.name], stack)
        return Program([script, "--help"], [], {})
    if job.kind in (jobs.SMOKE, jobs.TASK, jobs.SCRIPT):
        return read_script(job, stack, root, many=many)
    return Program([job.name, *job.words], [], {})


def read_script(job: jobs.Job, stack: Stack, root: str, *, many: bool) -> Program:
    """Return the script of smoke, of a task or of the user, with complete arguments."""
    # Only scripts pay for these.
    from entrypoint.tasks.arguments import adapt, arguments, read_given
    from entrypoint.tasks.flags import split_flags

    if job.kind == jobs.SMOKE:
        flags, notes, environ = adapt(split_flags(job.words), TRAINER, stack, many=many)
        words = [word for flag in flags for word in flag.words()]
        return Program(
            [f"{root}/smoke.py", *words], notes, read_given(words, read_file, strict=True), as_settings(environ)
        )
    if job.kind == jobs.TASK:
        task = TASKS[job.name]
        made = arguments(job.name, task, job.words, stack, many=many)
        given = made.found or read_given(made.words, read_file, strict=True)
        files = {} if made.found is None else copy_arguments(job.name, made.found)
        if task.kind == ACCELERATE:  # some of its flags went into the environment
            given = {**read_given(job.words, read_file, strict=True), **given}
        defaults = ON_CPU if task.kind == ACCELERATE else ()
        script = place_script(job.name, task, stack)
        words = [script, *(files or made.words)]
        return Program(words, made.notes, given, as_settings(made.environ), defaults, files)
    return Program([job.name, *job.words], [], read_given(job.words, read_file, strict=False), defaults=ON_CPU)


def copy_arguments(name: str, found: Mapping[str, object]) -> dict[str, str]:
    """Return the private file for translated arguments: its path and its text."""
    import json

    text = json.dumps(found, indent=1)
    return {name_copy(name, text, "json"): text}


def expand_home(name: str, program: Program, home: str) -> Program:
    """Return the program of a task with a whole path for the directory for results, where that begins with `~`.

    The Trainer expands it (transformers/training_args.py), and so does a shell, if nobody has quoted it. Raise Refusal
    for an empty one.
    """
    from entrypoint.tasks.arguments import OUTPUT, OUTPUT_DIR

    typed = program.given.get(OUTPUT_DIR)
    if typed == "":
        raise Refusal("the directory for results has no name", f"{OUTPUT_DIR} ''", f"--{OUTPUT_DIR} {OUTPUT}/{name}")
    if not isinstance(typed, str) or not typed.startswith("~"):
        return program
    return set_argument(name, program, OUTPUT_DIR, expand_user(typed, home))


def set_argument(name: str, program: Program, argument: str, value: str | int) -> Program:
    """Return a program with an argument added or changed; a file that has all arguments is copied for that.

    name: that of the copy; value: True for a flag without a value; a file has a number as such.
    """
    from entrypoint.tasks.arguments import is_argfile
    from entrypoint.tasks.flags import plain, split_flags

    script, *words = program.words
    given, values = {**program.given, argument: value}, () if value is True else (str(value),)
    if is_argfile(words):
        files = copy_arguments(name, given)
        return program._replace(words=[script, *files], given=given, files=files)
    if argument not in program.given:
        return program._replace(words=[script, *words, f"--{argument}", *values], given=given)
    flags = [
        flag._replace(values=values, joined=flag.joined and bool(values)) if plain(flag.name) == argument else flag
        for flag in split_flags(words)
    ]
    return program._replace(words=[script, *(word for flag in flags for word in flag.words())], given=given)


def name_copy(name: str, text: str, kind: str) -> str:
    """Return the path of a private file for a task; another text has another path."""
    import zlib

    return private_path(f"{name}-{zlib.crc32(text.encode()):08x}.{kind}")


def as_settings(environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return the variables that are in place of flags."""
    return tuple(Setting(name, value, "a flag that was typed") for name, value in environ.items())


def load_loosely(stack: Stack, environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return the variable without which the Trainer of this image loads no checkpoint; none where it needs none."""
    needs = release(stack.transformers) < LOADS_SAFELY and release(stack.torch) >= IS_STRICT
    return (LOOSE,) if needs and not environ.get(STRICT) else ()


def command(job: jobs.Job, world: World, words: list[str], environ: Mapping[str, str], torch: str) -> list[str]:
    """Return the command that starts a program in this world: by torchrun where there are processes to start.

    torch: its version, which decides how the ranks of a single node meet. Options of torchrun have underscores, which
    every release takes; dashes are known since 2.0 (pytorch/pytorch#94505).
    """
    if job.kind in (jobs.PLAIN, jobs.WORKER, jobs.LAUNCH, jobs.SSH, jobs.DOCTOR):
        return words
    if not job.trains:
        return [PYTHON, *words]
    if world.launcher == MPIJOB_WORKER:
        remedy = "run `worker` in the workers of an MPIJob, and the task in its launcher"
        raise Refusal("a worker of an MPIJob waits for ranks, it does not train", job.name, remedy)
    if world.launcher == TORCHRUN:
        return [TORCHRUN, *rendezvous(world, environ), *words]
    if world.launcher == ALONE and world.sizes[1] > 1:
        return [TORCHRUN, *meet_here(torch), "--nproc_per_node", str(world.local_size), *words]
    return [PYTHON, *words]


def meet_here(torch: str) -> list[str]:
    """Return the options by which the ranks of a single node meet.

    Torch 2.4 ignores --local-addr in a standalone rendezvous, and hangs where the name of the host does not resolve, as
    without a network (pytorch/pytorch#135262); its static rendezvous takes the address that it is given.
    """
    if not names_itself(torch):
        return ["--standalone"]
    from entrypoint.machine.network import is_free  # only this release pays for it

    port = next((port for port in range(PORT, PORT + 100) if is_free(port)), PORT)
    return ["--rdzv_backend", "static", "--master_addr", "127.0.0.1", "--master_port", str(port)]


def rendezvous(world: World, environ: Mapping[str, str]) -> list[str]:
    """Return the options of torchrun that it cannot read from PET_ variables, or would read wrongly."""
    each = ["--nproc_per_node", str(world.local_size)]
    if environ.get("PET_RDZV_ENDPOINT"):
        return each if environ.get("PET_RDZV_BACKEND") else [*each, "--rdzv_backend", "c10d"]
    nodes = ["--nnodes", str(world.nodes[1]), "--node_rank", str(world.node_rank or 0)]
    return [*each, *nodes, "--master_addr", str(world.master), "--master_port", str(world.port)]


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without empty PET_ variables: torchrun fails on the PET_STANDALONE= of a PyTorchJob."""
    return {name: value for name, value in environ.items() if value or not name.startswith("PET_")}


def find_torchrun(environ: Mapping[str, str]) -> str:
    """Return the path of torchrun itself, not that of our program of the same name."""
    # Its directory may be written in several ways; a program that found itself would start itself for ever.
    front = os.path.realpath(FRONT)
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in places if os.path.realpath(each) != front)
    found = which(TORCHRUN, {"PATH": path})
    if found is None:
        raise Refusal("there is no torchrun", path, "pip install torch", WORLD)
    return found
