"""Put the decision together: what was typed, who started us and what the machine has -> a command and its variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.machine.files import can_write, file_system_size, read_text
from entrypoint.machine.identity import find_identity
from entrypoint.machine.image import find_version, list_sites, warn_hidden, warn_stack
from entrypoint.machine.places import (
    CERTIFICATE,
    check_output,
    find_cache,
    is_mounted,
    list_caches,
    mount_points,
    settle_caches,
)
from entrypoint.settings import Prepared, Setting, overlay, prepare
from entrypoint.situation import Situation, find_situation
from entrypoint.tasks import command
from entrypoint.tasks import job as jobs
from entrypoint.tasks.task import TRAINER
from entrypoint.tasks.tasks import TASKS
from entrypoint.tuning import starters
from entrypoint.tuning.oneccl import take_setvars, without_image
from entrypoint.tuning.scene import Scene, is_isolated, is_training
from entrypoint.tuning.variables import set_rank_variables, tune_variables
from entrypoint.world.model import TORCHRUN
from entrypoint.world.signs import may_differ

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.identity import Identity
    from entrypoint.machine.image import Stack
    from entrypoint.machine.processors import Machine
    from entrypoint.runs.output import Run
    from entrypoint.world.model import World


class Decision(NamedTuple):
    """All that was found and decided; backend is the one the image was planned for.

    batch: how many examples a step takes in each process, as the arguments say; None where they do not; files: private
    files that are written before the command starts, by path; run: a training and its directory, if it has one; starts:
    whether the command becomes ranks of this world, as in Situation.
    """

    world: World
    machine: Machine
    prepared: Prepared
    argv: list[str]
    notes: list[str]
    reasons: dict[str, str]
    backend: str
    batch: int | None = None
    files: Mapping[str, str] = {}
    run: Run | None = None
    starts: bool = False


def decide(job: jobs.Job, environ: Mapping[str, str], stack: Stack, nproc: int | None, root: str) -> Decision:
    """Return the decision; only private files are written on the way: for an unknown user, and of certificates."""
    here, identity = find_situation(job, environ, nproc), find_identity(environ)
    tuned = tune_ranks(job, here, environ, stack)
    trust, faults = trust_mounted(environ, stack)
    sourced, known = take_setvars(environ, stack), {**environ, **identity.variables}
    caches = settle_caches(known, stack.transformers)
    program, run = prepare_program(job, here.world, overlay(known, caches), stack, root)
    forced = [
        *set_rank_variables(here.world, environ), *caches, *find_cache(overlay(known, caches)), *sourced, *here.meeting,
        *starters.fix_count(here.start, here.world, environ), *starters.fix_node(here.start, environ), *program.typed,
    ]  # fmt: skip
    # What was sourced, or is in the image's own configuration, is not the user's, and no default may keep it as such.
    decided = {each.name for each in sourced} | (environ.keys() - without_image(environ, stack).keys())
    defaults = [*(each for each in [*tuned, *trust] if each.name not in decided), *program.defaults]
    prepared = assemble(command.clean(environ), identity, forced, defaults)
    argv = command.command(job, here.world, fix_words(program, here), prepared.environ, stack.torch)
    moved = [f"{each.name}={each.value} is set: {each.why}" for each in caches]
    notes = [*here.notes, *warn_stack(stack, environ), *warn_hidden(stack, known), *faults, *moved, *program.notes]
    notes += warn_early(job, program.given, here.world, stack)
    notes += check_places(job, program.given, prepared.environ, here.world, stack.transformers)
    batch, reasons = find_batch(job, program), {each.name: each.why for each in [*forced, *defaults]}
    return Decision(
        here.world, here.machine, prepared, argv, notes, reasons, stack.backend,
        batch, program.files, run, starts=here.starts,
    )  # fmt: skip


def tune_ranks(job: jobs.Job, here: Situation, environ: Mapping[str, str], stack: Stack) -> list[Setting]:
    """Return what makes this process, or the ranks that it starts, fast on this machine; the user's own values win."""
    world, machine = here.world, here.machine
    training = is_training(world, job=here.starts)
    isolated = is_isolated(read_text("/proc/net/route"), read_text("/proc/net/ipv6_route"))
    route, exists = (lambda: find_master_interface(world)), os.path.exists
    tuned = tune_variables(Scene(world, machine, stack, training, route, exists, environ, here.kind, isolated))
    counts = here.starts and may_differ(environ, world)
    tuned += starters.bind_ranks(TORCHRUN if job.trains else job.name, world, machine, exists, counts=counts)
    if not here.starts:
        return tuned
    # A task says itself whether it goes on from checkpoints; of other scripts that is not known.
    loose = command.load_loosely(stack, environ) if job.kind in (jobs.SCRIPT, jobs.PLAIN) else ()
    return [*tuned, *starters.renew_store(world, here.described), *starters.number_ranks(world, environ), *loose]


def fix_words(program: command.Program, here: Situation) -> list[str]:
    """Return the words of a program, with a number for the `auto` of a typed torchrun."""
    return program.words if here.start is None else starters.replace_auto(program.words, here.world.local_size or 1)


def find_batch(job: jobs.Job, program: command.Program) -> int | None:
    """Return how many examples one process of a training takes for a step of the optimizer, if arguments say so."""
    if not job.trains:
        return None
    from entrypoint.tasks.arguments import read_batch  # only a training pays for it

    return read_batch(program.given)


def prepare_program(
    job: jobs.Job, world: World, environ: Mapping[str, str], stack: Stack, root: str
) -> tuple[command.Program, Run | None]:
    """Return the program of a job, if this image has all that it needs, and the run if it is one with checkpoints."""
    program, source = command.read_program(job, stack, root, many=world.sizes[1] > 1), ""
    if job.kind == jobs.TASK:
        from entrypoint.needs.script import check_evaluation, check_image  # only a task pays for it

        source = check_image(job.name, stack, environ)
        if job.helps:
            return program, None
        check_evaluation(job.name, source, program.given, world.sizes[1])
        program = command.expand_home(job.name, program, environ.get("HOME", ""))
        program = add_data(job, program, source, environ, stack)
    # A variable that has our value already comes from the image; it is not the user's.
    defaults = tuple(each for each in program.defaults if environ.get(each.name) != each.value)
    program = program._replace(defaults=defaults)
    if job.kind != jobs.TASK:
        return program, None
    from entrypoint.needs.copies import copy_script  # only a task pays for these
    from entrypoint.runs.task import prepare_run

    program, run = prepare_run(job, program, world, environ, stack)
    return copy_script(job.name, program, source, stack), run


def add_data(
    job: jobs.Job, program: command.Program, source: str, environ: Mapping[str, str], stack: Stack
) -> command.Program:
    """Return the program of a task with the place of data that `prefetch` brought, and notes on those that are missing.

    source: that of its script. Raise Refusal for data that the script will not find.
    """
    from entrypoint.needs import data  # as above

    sites = list_sites(stack, environ)
    data.check_data(job.name, program.given, find_version(sites, "datasets"), environ, os.path.exists)
    place = data.find_nltk(job.name, environ, os.path.exists)
    wanted = data.list_nltk(job.name, source, program.given, find_version(sites, "nltk"))
    notes = data.check_nltk(job.name, wanted, overlay(environ, place), os.path.exists)
    return program._replace(notes=[*program.notes, *notes], defaults=(*program.defaults, *place))


def find_master_interface(world: World) -> str | None:
    """Return the interface that leads to the master."""
    from entrypoint.machine import network  # a world on one node pays nothing for it

    return network.find_interface_to(world.master)


def trust_mounted(environ: Mapping[str, str], stack: Stack) -> tuple[list[Setting], list[str]]:
    """Trust the mounted certificate, if there is one; the second part is what is wrong with it."""
    if not os.path.lexists(CERTIFICATE):
        return [], []
    from entrypoint.machine.certificates import trust_certificate  # a container without one pays nothing for it

    return trust_certificate(environ, stack.site)


def assemble(
    environ: Mapping[str, str], identity: Identity, forced: list[Setting], defaults: list[Setting]
) -> Prepared:
    """Return the environment of the command; the user's preloads stay, and the library that gives us a name is last."""
    before = {**environ, **identity.variables}
    parts = [part for part in environ.get("LD_PRELOAD", "").split(":") if part]
    name = identity.preload or next((part for part in parts if "libnss_wrapper" in part), None)
    if name:
        yours = [part for part in parts if part != name]
        preloads = next((each.value for each in defaults if each.name == "LD_PRELOAD"), "")
        mine = [part for part in preloads.split(":") if part and part != name]
        before["LD_PRELOAD"] = ":".join([*yours, name])
        defaults = [each for each in defaults if each.name != "LD_PRELOAD"]
        forced = [*forced, Setting("LD_PRELOAD", ":".join([*(yours or mine), name]), "the name of this user")]
    prepared = prepare(before, forced, defaults)
    return prepared._replace(added={**identity.variables, **prepared.added})


def check_places(
    job: jobs.Job, given: Mapping[str, object], environ: Mapping[str, str], world: World, transformers: str
) -> list[str]:
    """Return rank 0's note on where results and caches go, and whether they would be lost with the container.

    Raise Refusal on a node that cannot write the results: rank 0's, and any other whose ranks will write some.
    """
    if not given or (world.rank and world.local_rank):
        return []
    from entrypoint.tasks.arguments import find_output

    output = find_output(given)
    if output is None or (world.rank and not all_write(job, given, output)):
        return []
    check_output(output, can_write)
    if world.rank:
        return []
    caches, points = list_caches(environ, transformers), mount_points(read_text("/proc/self/mountinfo"))
    lost = [path for path in (output, *caches.values()) if not is_mounted(os.path.realpath(path), points)]
    warning = f"; nothing is mounted at {' and '.join(lost)}, lost with the container" if lost else ""
    return [f"results go to {output}, {', '.join(f'{name} to {path}' for name, path in caches.items())}{warning}"]


def all_write(job: jobs.Job, given: Mapping[str, object], output: str) -> bool:
    """Return whether every rank writes results, as far as that is known; of a script of the user's it is not."""
    if job.kind != jobs.TASK:
        return False
    from entrypoint.runs.task import saves_ranks  # only a task pays for it

    return saves_ranks(TASKS[job.name].kind, given, os.path.isdir(output))


def warn_early(job: jobs.Job, given: Mapping[str, object], world: World, stack: Stack) -> list[str]:
    """Return notes on the limits that a training will reach on this machine: shared memory, memory, bf16.

    Raise Refusal where IPEX or the Trainer would end it because of the processor.
    """
    if not job.trains:
        return []
    from entrypoint.machine.limits import MEMORY, SMOKE_MEMORY, Demand, check_fp16, check_ipex, read_limits, warn

    limits = read_limits(read_text, file_system_size)
    check_ipex(limits.flags, given, stack.torch)
    if job.kind == jobs.SMOKE or (job.kind == jobs.TASK and TASKS[job.name].kind == TRAINER):
        check_fp16(given, stack)
    memory = SMOKE_MEMORY if job.kind == jobs.SMOKE else MEMORY
    demand = Demand(given, world.local_size or 1, memory, known=job.kind != jobs.SCRIPT)
    return warn(limits, demand)
