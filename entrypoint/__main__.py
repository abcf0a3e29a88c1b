"""Detect who started us, prepare the environment, and become the command."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from entrypoint.container.files import can_write, make_private, read_text, which, write_private
from entrypoint.container.identity import Identity, Who, identify
from entrypoint.container.image import Stack, read_stack
from entrypoint.container.places import choose_caches
from entrypoint.container.processors import Machine, read_machine
from entrypoint.early import check_places, trust_mounted, warn_early
from entrypoint.errors import USER, WORLD, Refusal
from entrypoint.explain import Decision, as_json, as_text, give_reasons, one_line
from entrypoint.launchers.table import ALONE, MPIJOB_LAUNCHER, detect
from entrypoint.launchers.world import World, check_alone, read_world
from entrypoint.settings import Prepared, Setting, forget, prepare
from entrypoint.streams import answer, tell
from entrypoint.training import job as jobs
from entrypoint.training import torchrun
from entrypoint.training.command import clean, command, read_program
from entrypoint.training.needs import ask_python, check_needs, list_packages, list_tasks
from entrypoint.tuning.variables import Scene, crowd, is_training, place, spread, tune

if TYPE_CHECKING:
    from collections.abc import Mapping


def main(argv: list[str], environ: Mapping[str, str], root: str) -> int:
    """Run the command of a container; root is the folder with stack.json and smoke.py."""
    try:
        return run(argv, environ, root)
    except Refusal as refusal:
        tell(refusal)
        return refusal.code
    except OSError as error:
        tell(Refusal("the system refused", error, "look at the file or program that is named"))
        return WORLD
    except KeyboardInterrupt:
        return 130


def run(argv: list[str], environ: Mapping[str, str], root: str) -> int:
    """Go from the command line to exec; what returns has said all there is to say."""
    options, words = jobs.read_options(argv)
    environ = forget(environ)
    job = jobs.read_job(words or shell(), environ, which)
    if job.kind == jobs.USAGE:
        tell(jobs.HELP)
        return 0 if job.name else USER
    stack = read_stack(read_text(f"{root}/stack.json"))
    if options.explain and job.kind in (jobs.LIST, jobs.DOCTOR):
        raise Refusal("--explain has no meaning for a command that only tells", job.name, job.name)
    if job.kind == jobs.LIST:
        answer(list_tasks(stack, lambda: ask_python(environ)))
        return 0
    if job.trains and detect(environ).kind == MPIJOB_LAUNCHER:
        # The operator's hostfile says where; the launcher of an MPIJob starts ranks, it is none.
        job = jobs.Job(jobs.LAUNCH, jobs.LAUNCH, words)
    if job.kind == jobs.LAUNCH and options.nproc is not None:
        raise Refusal("--nproc has no meaning to launch", f"--nproc {options.nproc}", "launch --ppn N smoke")
    if job.kind == jobs.DOCTOR:
        from entrypoint.doctor.report import doctor

        return doctor(job, lambda each: decide(each, environ, stack, options.nproc, root), stack, root)
    decision = decide(job, environ, stack, options.nproc, root)
    if options.explain:
        answer(as_json(decision) if options.explain == "json" else as_text(decision))
        return 0
    if not decision.world.local_rank and job.kind != jobs.SSH:
        tell("\n".join([one_line(decision), *(f"multinode: {note}" for note in decision.notes)]))
    return become(job, decision, root)


def shell() -> list[str]:
    """Give a person at a terminal who named no command a shell."""
    return ["bash"] if sys.stdin is not None and sys.stdin.isatty() else []


def become(job: jobs.Job, decision: Decision, root: str) -> int:
    """End as the command itself, so that signals and the exit code are its own."""
    environ, argv = decision.prepared.environ, decision.argv
    if job.kind == jobs.WORKER:
        from entrypoint.cluster.sshd import serve

        argv, environ = serve(environ)
    elif job.kind == jobs.SSH:
        from entrypoint.cluster.ssh import connect

        argv, environ = connect(job.words, environ)
    elif job.kind == jobs.LAUNCH:
        from entrypoint.cluster.launch import launch

        return launch(job.words, environ, root, decision.machine)
    elif (job.trains or job.name == torchrun.NAME) and decision.world.sizes[1] > 1:
        from entrypoint.launchers.ready import check_master

        check_master(decision.world, environ)
    if decision.world.rank is not None and environ.get("MULTINODE_SUPERVISED"):
        from entrypoint.cluster.rank import supervise

        return supervise(argv, environ, decision.world.rank)
    os.execvpe(torchrun.find(environ) if argv[0] == torchrun.NAME else argv[0], argv, environ)


def decide(job: jobs.Job, environ: Mapping[str, str], stack: Stack, nproc: int | None, root: str) -> Decision:
    """Work out everything; only the private files of an unknown user are written here."""
    machine, typed = look(), job.name == torchrun.NAME
    world, notes = find_world(job, environ, torchrun.count(job.words, environ) if typed and nproc is None else nproc)
    world = spread(world, machine)
    identity = find_identity(environ)
    training = is_training(world, job=job.trains)
    scene = Scene(world, machine, stack, training, lambda: find_route(world), os.path.exists, environ)
    trust, faults = trust_mounted(environ, stack)
    sourced = take_setvars(environ, stack)
    decided = {each.name for each in sourced}
    wanted = [each for each in [*tune(scene), *trust] if each.name not in decided]
    forced = [*place(world), *find_cache(environ, identity), *sourced, *(torchrun.settle(world) if typed else [])]
    program = read_program(job, stack, root, many=world.sizes[1] > 1)
    if job.kind == jobs.TASK:
        check_needs(job.name, lambda: list_packages(stack.site), lambda: ask_python(environ))
    forced += program.asked
    # What has our value already is the image's own, not to be named as the user's.
    wanted += [each for each in program.wanted if environ.get(each.name) != each.value]
    prepared = assemble(clean(environ), identity, forced, wanted)
    argv = command(job, world, program.words, prepared.environ)
    notes = [*notes, *faults, *program.notes, *crowd(world, machine)]
    notes += [*check_places(program.given, prepared.environ, world), *warn_early(job, program.given, world)]
    return Decision(world, machine, prepared, argv, notes, give_reasons([*forced, *wanted]), stack.backend)


def look() -> Machine:
    """Look at the machine as this process is allowed to use it."""
    return read_machine(read_text, frozenset(os.sched_getaffinity(0)), os.getppid())


def find_world(job: jobs.Job, environ: Mapping[str, str], nproc: int | None) -> tuple[World, list[str]]:
    """Find the world; what is wrong with it stops a training, and is a note beside any other command."""
    try:
        world = read_world(environ, detect(environ), nproc)
        if job.trains or job.name.startswith("python"):
            check_alone(environ, world)
        return world, []
    except Refusal as refusal:
        if job.trains:
            raise
        note = str(refusal).replace("multinode: ", "").replace("\n ", ";")
        return World(ALONE, "the launcher's variables are not usable", local_size=nproc), [note]


def find_route(world: World) -> str | None:
    """Find the interface that leads to the master."""
    from entrypoint.container.network import find_interface, read_routes  # a world on one node pays nothing for it

    return find_interface(read_routes(read_text("/proc/net/route"), read_text("/proc/net/ipv6_route")), world.master)


def find_identity(environ: Mapping[str, str]) -> Identity:
    """Find out who we are, and make the folders and files that a user without a name needs."""
    import grp
    import pwd

    def ask(database: object, number: int, kind: str) -> str | None:
        try:
            return str(getattr(database, f"get{kind}id")(number)[0])
        except KeyError:
            return None

    who = Who(os.getuid(), os.getgid(), ask(pwd, os.getuid(), "pwu"), ask(grp, os.getgid(), "grg"))
    identity = identify(who, environ, lambda path: os.path.isdir(path) and can_write(path), read_text)
    for folder in identity.folders:
        make_private(folder)
    for path, text in identity.files.items():
        write_private(path, text)
    return identity


def assemble(environ: Mapping[str, str], identity: Identity, forced: list[Setting], wanted: list[Setting]) -> Prepared:
    """Put the environment together; the user's own preloads stay, the one that gives us a name comes last."""
    before = {**environ, **identity.variables}
    parts = [part for part in environ.get("LD_PRELOAD", "").split(":") if part]
    name = identity.preload or next((part for part in parts if "libnss_wrapper" in part), None)
    if name:
        yours = [part for part in parts if part != name]
        mine = [each.value for each in wanted if each.name == "LD_PRELOAD"]
        before["LD_PRELOAD"] = ":".join([*yours, name])
        wanted = [each for each in wanted if each.name != "LD_PRELOAD"]
        forced = [*forced, Setting("LD_PRELOAD", ":".join([*(yours or mine), name]), "the name of this user")]
    prepared = prepare(before, forced, wanted)
    return prepared._replace(added={**identity.variables, **prepared.added})


def find_cache(environ: Mapping[str, str], identity: Identity) -> list[Setting]:
    """Move what the hub's libraries write to where they can."""
    home = identity.variables.get("HOME") or environ.get("HOME", "/tmp")
    moved = choose_caches(environ, home, can_write, os.path.isdir)
    return [Setting(name, path, f"{environ.get('HF_HOME')} cannot be written") for name, path in moved.items()]


def take_setvars(environ: Mapping[str, str], stack: Stack) -> list[Setting]:
    """Take over what oneCCL's script sets, once, and only where there is one."""
    from entrypoint.tuning.oneccl import find_script, source

    script = find_script(stack)
    if script is None or environ.get("CCL_ROOT") or not os.path.isfile(script):
        return []
    return [Setting(name, value, "setvars.sh") for name, value in source(script, environ).items()]
