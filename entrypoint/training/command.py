"""The command that is exec'd: a list of words, never a shell's line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.container.files import read_file, which
from entrypoint.errors import WORLD, Refusal
from entrypoint.launchers.table import detect
from entrypoint.launchers.world import ALONE, MPIJOB_WORKER, TORCHRUN
from entrypoint.numbers import whole
from entrypoint.settings import Setting
from entrypoint.training import job as jobs
from entrypoint.training.arguments import adapt, arguments, read_given
from entrypoint.training.flags import split_flags
from entrypoint.training.needs import find_script
from entrypoint.training.task import ACCELERATE, TRAINER
from entrypoint.training.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.container.image import Stack
    from entrypoint.launchers.world import World

PYTHON = "python3"
# What the guide's PyTorchJobs have as their command.
TORCHRUN_COMMAND = "torchrun"
# Our images have a program of that name here, which calls the entrypoint: a pod's `command` replaces the entrypoint.
FRONT = "/usr/local/sbin"
COUNT = "--nproc-per-node"
# What --use_cpu says to the Trainer; without either, accelerate trains every rank alone since 1.13.
ON_CPU = (Setting("ACCELERATE_USE_CPU", "1", "without it accelerate counts no ranks on a CPU"),)


class Program(NamedTuple):
    """A Python script with its arguments, what was translated in them, and what they say by name.

    typed: variables in place of flags that the user typed; defaults: what the script reads from the environment only.
    """

    words: list[str]
    notes: list[str]
    given: Mapping[str, object]
    typed: tuple[Setting, ...] = ()
    defaults: tuple[Setting, ...] = ()


def read_program(job: jobs.Job, stack: Stack, root: str, *, many: bool) -> Program:
    """Return the script of a job with complete arguments."""
    if job.kind == jobs.SMOKE:
        flags, notes, environ = adapt(split_flags(job.words), TRAINER, stack, many=many)
        words = [word for flag in flags for word in flag.words()]
        return Program(
            [f"{root}/smoke.py", *words], notes, read_given(words, read_file, strict=True), as_settings(environ)
        )
    if job.kind == jobs.TASK:
        task = TASKS[job.name]
        made = arguments(job.name, task, job.words, stack, many=many)
        given = read_given(made.words, read_file, strict=True)
        if task.kind == ACCELERATE:  # some of its flags went into the environment
            given = {**read_given(job.words, read_file, strict=True), **given}
        defaults = ON_CPU if task.kind == ACCELERATE else ()
        script = find_script(job.name, task, stack)
        return Program([script, *made.words], made.notes, given, as_settings(made.environ), defaults)
    if job.kind == jobs.SCRIPT:
        return Program([job.name, *job.words], [], read_given(job.words, read_file, strict=False), defaults=ON_CPU)
    return Program([job.name, *job.words], [], {})


def as_settings(environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return the variables that are in place of flags."""
    return tuple(Setting(name, value, "a flag that was typed") for name, value in environ.items())


def command(job: jobs.Job, world: World, words: list[str], environ: Mapping[str, str]) -> list[str]:
    """Return the command that starts a program in this world: by torchrun where there are processes to start."""
    if job.kind in (jobs.PLAIN, jobs.WORKER, jobs.LAUNCH, jobs.SSH, jobs.DOCTOR):
        return words
    if not job.trains:
        return [PYTHON, *words]
    if world.launcher == MPIJOB_WORKER:
        remedy = "run `worker` in the workers of an MPIJob, and the task in its launcher"
        raise Refusal("a worker of an MPIJob waits for ranks, it does not train", job.name, remedy)
    if world.launcher == TORCHRUN:
        return [TORCHRUN_COMMAND, *rendezvous(world, environ), *words]
    if world.launcher == ALONE and world.sizes[1] > 1:
        return [TORCHRUN_COMMAND, "--standalone", "--nproc-per-node", str(world.local_size), *words]
    return [PYTHON, *words]


def rendezvous(world: World, environ: Mapping[str, str]) -> list[str]:
    """Return the options of torchrun that it cannot read from PET_ variables, or would read wrongly."""
    each = ["--nproc-per-node", str(world.local_size)]
    if environ.get("PET_RDZV_ENDPOINT"):
        return each if environ.get("PET_RDZV_BACKEND") else [*each, "--rdzv-backend", "c10d"]
    nodes = ["--nnodes", str(world.nodes[1]), "--node-rank", str(world.node_rank or 0)]
    return [*each, *nodes, "--master-addr", str(world.master), "--master-port", str(world.port)]


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without empty PET_ variables: torchrun fails on the PET_STANDALONE= of a PyTorchJob."""
    return {name: value for name, value in environ.items() if value or not name.startswith("PET_")}


def read_count(words: list[str]) -> int | None:
    """Return the number of processes in torchrun's options; None where they leave it open."""
    left = list(words)
    while left and not left[0].endswith(".py"):  # what follows a script is the script's
        name, equals, value = left.pop(0).partition("=")
        if name.replace("_", "-") == COUNT:
            return whole(value if equals or not left else left[0])
    return None


def count_typed(job: jobs.Job, environ: Mapping[str, str]) -> int | None:
    """Return the number of processes in the options of a typed torchrun; None in a rank, whose world has its size."""
    if job.name != TORCHRUN_COMMAND or detect(environ).started:
        return None
    return read_count(job.words)


def fix_count(job: jobs.Job, world: World) -> list[Setting]:
    """Return the number of processes for a typed torchrun as a variable: its own `auto` counts processors."""
    if job.name != TORCHRUN_COMMAND or world.launcher != TORCHRUN or world.local_size is None:
        return []
    return [Setting("PET_NPROC_PER_NODE", str(world.local_size), "torchrun's auto is a process for every processor")]


def find_torchrun(environ: Mapping[str, str]) -> str:
    """Return the path of torchrun itself, not of what is in front of it."""
    path = os.pathsep.join(each for each in environ.get("PATH", os.defpath).split(os.pathsep) if each != FRONT)
    found = which(TORCHRUN_COMMAND, {"PATH": path})
    if found is None:
        raise Refusal("there is no torchrun", path, "pip install torch", WORLD)
    return found
