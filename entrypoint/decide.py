"""Put the decision together: what was typed, who started us and what the machine has -> a command and its variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.container.files import can_write, file_system_size, read_text
from entrypoint.container.identity import find_identity
from entrypoint.container.places import (
    CERTIFICATE,
    check_output,
    find_cache,
    is_mounted,
    list_caches,
    mount_points,
    move_models,
)
from entrypoint.container.processors import read_machine
from entrypoint.errors import Refusal
from entrypoint.explain import Decision, give_reasons
from entrypoint.launchers.signs import check_alone, warn_indexed
from entrypoint.launchers.table import detect, read_world
from entrypoint.launchers.torchrun import name_job
from entrypoint.launchers.world import ALONE, TORCHRUN, World
from entrypoint.numbers import whole
from entrypoint.settings import Prepared, Setting, prepare
from entrypoint.training import command
from entrypoint.training import job as jobs
from entrypoint.tuning import starters
from entrypoint.tuning.oneccl import take_setvars, without_image
from entrypoint.tuning.scene import ANY, RANKS, SINGLE, UNKNOWN, Scene, crowd, is_isolated, is_training, spread
from entrypoint.tuning.variables import place, tune

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.container.identity import Identity
    from entrypoint.container.image import Stack
    from entrypoint.container.processors import Machine


def decide(job: jobs.Job, environ: Mapping[str, str], stack: Stack, nproc: int | None, root: str) -> Decision:
    """Return the decision; only private files are written on the way: for an unknown user, and of certificates."""
    machine = read_this_machine()
    start = find_start(job, environ, nproc)
    found = (environ, nproc) if start is None else (start.environ, start.each)
    world, notes = find_world(job, *found)
    starts = job.trains or (start is not None and start.program == starters.TORCHRUN)
    world, meeting = meet(world, {**environ, **found[0]}, name_task(job)) if starts else (world, [])
    threads = whole(environ.get("OMP_NUM_THREADS", "").partition(",")[0])
    world = spread(world, machine, threads, starts=job.trains or start is not None)
    notes += check_world(job, found[0], world)
    identity = find_identity(environ)
    training = is_training(world, job=starts)
    interface, kind = (lambda: find_route(world)), find_kind(job, world, start)
    isolated = is_isolated(read_text("/proc/net/route"), read_text("/proc/net/ipv6_route"))
    tuned = tune(Scene(world, machine, stack, training, interface, os.path.exists, environ, kind, isolated))
    tuned += starters.bind_ranks(starters.TORCHRUN if job.trains else job.name, world, machine, os.path.exists)
    tuned += starters.renew_store(world, found[0]) if starts else []
    trust, faults = trust_mounted(environ, stack)
    sourced, models = take_setvars(environ, stack), move_models(environ, stack.transformers)
    program = find_program(job, environ, stack, root, many=world.sizes[1] > 1)
    run = None
    if job.kind == jobs.TASK:
        from entrypoint.runs.task import prepare_run  # only a task pays for it

        run, program = prepare_run(job, program, world, environ, stack)
    forced = [*place(world, environ), *find_cache(environ, identity), *models, *sourced, *meeting]
    forced += [*starters.fix_count(start, world, environ), *program.typed]
    decided = {each.name for each in sourced}
    # What the image's own configuration has is not the user's either.
    decided |= environ.keys() - without_image(environ, stack).keys()
    defaults = [*(each for each in [*tuned, *trust] if each.name not in decided), *program.defaults]
    prepared = assemble(command.clean(environ), identity, forced, defaults)
    words = program.words if start is None else starters.replace_auto(program.words, world.local_size or 1)
    argv = command.command(job, world, words, prepared.environ, stack.torch)
    notes += [*faults, *(f"{each.name}={each.value} is set: {each.why}" for each in models), *program.notes]
    notes += [*crowd(world, machine, threads), *warn_early(job, program.given, world)]
    notes += check_places(program.given, prepared.environ, world, stack.transformers)
    batch = find_batch(job, program)
    reasons = give_reasons([*forced, *defaults])
    return Decision(world, machine, prepared, argv, notes, reasons, stack.backend, batch, program.files, run)


def find_batch(job: jobs.Job, program: command.Program) -> int | None:
    """Return how many examples one process of a training takes for a step of the optimizer, if arguments say so."""
    if not job.trains:
        return None
    from entrypoint.training.arguments import read_batch  # only a training pays for it

    return read_batch(program.given)


def find_start(job: jobs.Job, environ: Mapping[str, str], nproc: int | None) -> starters.Start | None:
    """Return what a typed program says of the ranks that it will start; under a launcher only torchrun counts."""
    start = starters.read_start([job.name, *job.words], environ, nproc) if job.kind == jobs.PLAIN else None
    if start is not None and start.program == starters.TORCHRUN:
        return start
    if nproc is not None and job.kind in (jobs.PLAIN, jobs.TASK, jobs.WORKER, jobs.SSH) and not job.trains:
        raise Refusal("--nproc has no meaning for a command that is no training", f"--nproc {nproc}", job.name)
    if start is None:
        return None
    if detect(environ).started:
        return None
    starters.check_accelerate([job.name, *job.words], environ)
    return start._replace(environ=environ)


def name_task(job: jobs.Job) -> str:
    """Return what a job trains: the task, or the name of the script, with which a typed torchrun names it as well."""
    words = [job.name, *job.words]
    return next((os.path.basename(word) for word in words if word.endswith(".py")), os.path.basename(job.name))


def meet(world: World, environ: Mapping[str, str], task: str) -> tuple[World, list[Setting]]:
    """Return the world with a name for its job and an address for a master that is here; and how torchrun meets."""
    if world.launcher != TORCHRUN or not world.several_nodes:
        return world, []
    from entrypoint.launchers.ready import describe_meeting, find_here  # a world on one node pays nothing for it

    world = name_job(find_here(world), environ, task)
    return world, describe_meeting(world, environ)


def find_kind(job: jobs.Job, world: World, start: starters.Start | None) -> str:
    """Return what this process becomes, as in Scene."""
    if start is not None:
        return UNKNOWN if start.each is None and not start.is_auto else ANY
    if job.trains or world.rank is not None:
        return RANKS
    return SINGLE if job.kind == jobs.TASK or job.name.startswith("python") else ANY


def read_this_machine() -> Machine:
    """Return the machine as this process is allowed to use it."""
    return read_machine(read_text, frozenset(os.sched_getaffinity(0)), os.getppid())


def find_world(job: jobs.Job, environ: Mapping[str, str], nproc: int | None) -> tuple[World, list[str]]:
    """Return the world; what is wrong with it stops a training, and is a note beside any other command."""
    try:
        return read_world(environ, detect(environ), nproc), []
    except Refusal as refusal:
        if job.trains:
            raise
        return World(ALONE, "the launcher's variables are not usable", local_size=nproc), [as_note(refusal)]


def check_world(job: jobs.Job, environ: Mapping[str, str], world: World) -> list[str]:
    """Return notes on a world in which this process would train apart from others; a training of ours is refused."""
    python = job.name.startswith("python")
    try:
        if job.trains or python:
            check_alone(environ, world)
    except Refusal as refusal:
        if job.trains:
            raise
        return [as_note(refusal)]
    notes = warn_indexed(environ, world) if job.trains or python else []
    if python and world.launcher == TORCHRUN and job.words and job.words[0].endswith(".py"):
        apart = f"{job.name} starts one process on every node, each by itself"
        notes.append(f"{apart}; `{job.words[0]}` without {job.name} is started by torchrun")
    if world.rank is not None and world.nodes[0] < world.nodes[1]:
        unknown = "nothing says how many ranks this node has, so each gets its share of all"
        notes.append(f"{unknown}: export LOCAL_WORLD_SIZE")
    return notes


def as_note(refusal: Refusal) -> str:
    """Return a refusal in one line."""
    return str(refusal).replace("multinode: ", "").replace("\n ", ";")


def find_program(job: jobs.Job, environ: Mapping[str, str], stack: Stack, root: str, *, many: bool) -> command.Program:
    """Return the program of a job, if this image has all that it needs; many: whether its world has several ranks."""
    program = command.read_program(job, stack, root, many=many)
    if job.kind == jobs.TASK:
        from entrypoint.training import needs  # only a task pays for it

        needs.check_needs(job.name, lambda: needs.list_packages(stack.site), lambda: needs.ask_python(environ))
        needs.check_data(program.given, needs.find_version(stack.site, "datasets"), os.path.exists)
        data = needs.find_nltk(job.name, environ, os.path.exists)
        notes = needs.check_nltk(job.name, {**environ, **{each.name: each.value for each in data}}, os.path.exists)
        program = program._replace(notes=[*program.notes, *notes], defaults=(*program.defaults, *data))
    # A variable that has our value already comes from the image; it is not the user's.
    defaults = tuple(each for each in program.defaults if environ.get(each.name) != each.value)
    return program._replace(defaults=defaults)


def find_route(world: World) -> str | None:
    """Return the interface that leads to the master."""
    from entrypoint.container import network  # a world on one node pays nothing for it

    return network.find_route(world.master)


def trust_mounted(environ: Mapping[str, str], stack: Stack) -> tuple[list[Setting], list[str]]:
    """Trust the mounted certificate, if there is one; the second part is what is wrong with it."""
    if not os.path.lexists(CERTIFICATE):
        return [], []
    from entrypoint.container.certificates import trust  # a container without one pays nothing for it

    return trust(environ, stack.site)


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


def check_places(given: Mapping[str, object], environ: Mapping[str, str], world: World, transformers: str) -> list[str]:
    """Return a note on where results and caches go, and whether they would be lost with the container."""
    if not given or world.rank:
        return []
    from entrypoint.training.arguments import find_output

    output = find_output(given)
    if output is None:
        return []
    check_output(output, can_write)
    caches = list_caches(environ, transformers)
    points = mount_points(read_text("/proc/self/mountinfo"))
    lost = [path for path in (output, *caches.values()) if not is_mounted(os.path.realpath(path), points)]
    warning = f"; nothing is mounted at {' and '.join(lost)}, lost with the container" if lost else ""
    return [f"results go to {output}, {', '.join(f'{name} to {path}' for name, path in caches.items())}{warning}"]


def warn_early(job: jobs.Job, given: Mapping[str, object], world: World) -> list[str]:
    """Return notes on the limits that a training will reach on this machine: shared memory, memory, bf16."""
    if not job.trains:
        return []
    from entrypoint.container.limits import MEMORY, SMOKE_MEMORY, Demand, read_limits, warn

    memory = SMOKE_MEMORY if job.kind == jobs.SMOKE else MEMORY
    demand = Demand(given, world.local_size or 1, memory, known=job.kind != jobs.SCRIPT)
    return warn(read_limits(read_text, file_system_size), demand)
