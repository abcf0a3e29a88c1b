"""Put the plan of a start together: a command in its world, and the facts -> what is run, with which variables."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from multinode_image.errors import Refusal
from multinode_image.facts import Facts
from multinode_image.machine.cpus import Machine
from multinode_image.machine.files import can_write
from multinode_image.machine.identity import Identity
from multinode_image.machine.image import warn_hidden, warn_stack
from multinode_image.machine.network import find_interface
from multinode_image.machine.places import (
    CERTIFICATE,
    check_output,
    explain_closed,
    find_caches,
    find_closed,
    list_caches,
    list_lost,
    trust_certificate,
)
from multinode_image.reading import LAST_PORT, whole
from multinode_image.results.plan import find_results, find_script, plan_run
from multinode_image.results.record import RESULTS, STATE_DIRECTORY, Run, check_directory
from multinode_image.settings import BF16, EMULATE, LOGS, METRICS, Prepared, Setting, overlay, prepare, warn_mistyped
from multinode_image.situation import Situation
from multinode_image.tasks.arguments import Program, load_loosely, make_argv, read_batch, read_program
from multinode_image.tasks.command import SCRIPT
from multinode_image.tasks.defaults import OUTPUT_DIR, advise_padding
from multinode_image.tuning.context import Process
from multinode_image.tuning.gradients import read_choice
from multinode_image.tuning.handover import CORES, RANK_PROGRAM
from multinode_image.tuning.variables import Tuned, set_rank_variables, settle_size, take_setvars, tune, without_image
from multinode_image.world.alone import may_differ
from multinode_image.world.model import TORCHRUN, World
from multinode_image.world.torchrun import PREFIX, prepare_restarts, set_meeting_variables, set_unread_variables

# The ranks get their own number once torchrun has read its options (hooks/ends/ranks.py).
QUIET = Setting("OMP_NUM_THREADS", "1", "torchrun prints six rows of warning where it is not set")


@dataclass(frozen=True)
class Preflight:
    """What is known before anybody waits: a program with all its arguments, its run, variables of caches, notes."""

    program: Program
    run: Run | None
    caches: tuple[Setting, ...]
    notes: tuple[str, ...]


def look_ahead(situation: Situation, facts: Facts) -> Preflight:
    """Return the program of a command; raise Refusal for what would end it later, without a network.

    That is what the image lacks, arguments that contradict each other, a setting that is not known, and results that
    cannot be written.
    """
    command, world, environ = situation.command, situation.world, facts.environ_with_home
    if situation.role.trains:
        read_choice(environ)
        check_watching(environ)
    if command.trains:
        check_bf16(environ)
    program = read_program(command, facts.stack, environ, world, facts.root)
    program, run = plan_run(command, program, facts)
    caches = find_caches(environ, facts.stack.transformers)
    output, _ = find_results(command, program.arguments, environ)
    if output is not None:
        # Not in the directory itself: the Trainer uploads what is there, but for what begins with `_` (push_to_hub).
        runs = Setting("WANDB_DIR", f"{output}/{STATE_DIRECTORY}", "kept with the results")
        program = program._replace(defaults=(*program.defaults, runs))
    places = note_places(situation, program, overlay(environ, caches), facts)
    if command.kind == SCRIPT and not world.rank:  # of a task all places are said
        places += [f"{setting.why}: downloads go to {setting.value}" for setting in caches if setting.name == "HF_HOME"]
    if situation.role.trains and not world.local_rank:
        parts = find_closed(list_caches(overlay(environ, caches), facts.stack.transformers).values(), can_write)
        places += [explain_closed("a part of the cache cannot be written", path).note for path in parts]
    if run is not None:
        check_directory(run, world)
    script, _ = find_script(command)
    if script and world.is_first:
        places += advise_padding(os.path.basename(script), facts.read_script(script))
    return Preflight(program, run, tuple(caches), (*program.notes, *places))


def check_watching(environ: Mapping[str, str]) -> None:
    """Raise Refusal for a directory for logs that cannot be written, and for a port for metrics that is none."""
    if (logs := environ.get(LOGS)) and not can_write(logs):
        raise explain_closed("the directory for logs cannot be written", logs, f"unset {LOGS}")
    if (port := environ.get(METRICS)) and not 0 < (whole(port) or 0) <= LAST_PORT:
        raise Refusal(
            f"{METRICS} is not a port from 1 to {LAST_PORT}", repr(port), f"export {METRICS}=9400, or unset it"
        )


def check_bf16(environ: Mapping[str, str]) -> None:
    """Raise Refusal for a word about bf16 that is not known (hooks/compute/bf16_units.py reads it)."""
    word = environ.get(BF16, "").strip()
    if word not in ("", EMULATE):
        raise Refusal(f"{BF16} has a value that is not known", repr(word), f"export {BF16}={EMULATE}, or unset it")


def note_places(situation: Situation, program: Program, environ: Mapping[str, str], facts: Facts) -> list[str]:
    """Return a note on where results and caches go, and whether they would be lost with the container.

    Rank 0 has it, or each node that starts torchrun.

    Raise Refusal on a node that cannot write the results. Each rank of a task writes some, such as its random state in
    every checkpoint (transformers/trainer.py, _save_rng_state); of a script of the user's that is not known.
    """
    command, world = situation.command, situation.world
    output, usual = find_results(command, program.arguments, environ)
    if output is None or (world.rank and (world.local_rank or command.task is None)):
        return []
    stays = not list_lost([output], facts.mounts)
    if stays or not usual:
        check_output(
            (output, f"{output}/{STATE_DIRECTORY}"), can_write, RESULTS if command.kind == SCRIPT else f"--{OUTPUT_DIR}"
        )
    if world.rank or (usual and stays):
        return []
    if usual:
        elsewhere = "where a script writes elsewhere, name that in MULTINODE_OUTPUT"
        return [f"nothing is mounted at {output}: results there are lost with the container; {elsewhere}"]
    caches = list_caches(environ, facts.stack.transformers)
    lost = list_lost((output, *caches.values()), facts.mounts)
    warning = f"; nothing is mounted at {' and '.join(lost)}, lost with the container" if lost else ""
    return [f"results go to {output}, {', '.join(f'{name} to {path}' for name, path in caches.items())}{warning}"]


@dataclass(frozen=True)
class Plan:
    """All that was decided for a command.

    batch: how many examples a step takes in each process, as the arguments say; None where they do not; run: a training
    and its directory, if it has one; arguments: those of its program, by name.
    """

    facts: Facts
    situation: Situation
    prepared: Prepared
    argv: list[str]
    notes: list[str]
    reasons: dict[str, str]
    batch: int | None = None
    run: Run | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)

    @property
    def world(self) -> World:
        """Return the world that the command belongs to or starts."""
        return self.situation.world

    @property
    def machine(self) -> Machine:
        """Return the machine as this process may use it."""
        return self.facts.machine

    @property
    def backend(self) -> str:
        """Return the backend that the image was planned for."""
        return self.facts.stack.backend


def decide(situation: Situation, ahead: Preflight, facts: Facts) -> Plan:
    """Return the plan; only the private file of a mounted certificate is written on the way."""
    command, program = situation.command, ahead.program
    stack, environ = facts.stack, facts.environ
    tuned = tune_ranks(situation, facts)
    trust, faults = trust_certificate(environ, stack.site) if os.path.lexists(CERTIFICATE) else ([], [])
    forced, defaults = choose_variables(situation, ahead, facts, [*tuned.settings, *trust])
    prepared = assemble(drop_empty(environ), facts.identity, forced, defaults, tuned.removed)
    return Plan(
        facts=facts,
        situation=situation,
        prepared=prepared,
        argv=make_argv(command, situation.world, program.words, prepared.environ, stack.torch),
        notes=[
            *facts.notes,
            *situation.notes,
            *warn_mistyped(environ),
            *warn_stack(stack, environ),
            *warn_hidden(stack, facts.environ_with_home),
            *faults,
            *tuned.notes,
            *ahead.notes,
        ],
        reasons={setting.name: setting.why for setting in [*forced, *defaults]},
        batch=read_batch(program.arguments) if command.trains else None,
        run=ahead.run,
        arguments=program.arguments,
    )


def choose_variables(
    situation: Situation, ahead: Preflight, facts: Facts, usual: list[Setting]
) -> tuple[list[Setting], list[Setting]]:
    """Return what is set over every value, and what is set where the user has set nothing, of which `usual` is a part.

    What setvars.sh or the image has set stays, and is no value of the user's that a default would say it keeps.
    """
    world, environ, stack = situation.world, facts.environ, facts.stack
    sourced = take_setvars(environ, stack)
    forced = [
        *set_rank_variables(world, environ),
        *(settle_size(world, environ) if situation.command.trains else []),
        *ahead.caches,
        *sourced,
        *(set_meeting_variables(world, environ) if situation.role.trains else []),
        *(set_unread_variables(environ, situation.nproc) if situation.must_be_asked else []),
        *ahead.program.forced,
    ]
    of_image = {setting.name for setting in sourced} | (environ.keys() - without_image(environ, stack).keys())
    defaults = [*(setting for setting in usual if setting.name not in of_image), *ahead.program.defaults]
    if CORES in {setting.name for setting in defaults} or (environ.get(LOGS) and situation.role.is_torchrun):
        defaults.append(Setting("PYTHON_EXEC", RANK_PROGRAM, "a rank of torchrun reads what is handed to it first"))
    return forced, defaults


def drop_empty(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without empty variables of torchrun, which fails on an empty PET_STANDALONE."""
    return {name: value for name, value in environ.items() if value or not name.startswith(PREFIX)}


def tune_ranks(situation: Situation, facts: Facts) -> Tuned:
    """Return what makes this process, or the ranks that it starts, fast on this machine; the user's own values win."""
    command, world, environ, stack = situation.command, situation.world, facts.environ, facts.stack
    process = Process(
        situation.role,
        program=TORCHRUN if command.trains else command.name,
        starter=TORCHRUN if situation.role.is_torchrun else situation.starter.program if situation.starter else "",
        checks_size=situation.role.trains and may_differ(environ, world),
        is_logged=not facts.has_terminal,
        find_interface=lambda: find_interface(world.master),
        has_file=facts.exists,
    )
    tuned = tune(world, facts.machine, environ, stack, process)
    if situation.must_be_asked:
        return tuned._replace(settings=[*tuned.settings, QUIET])
    if not situation.role.trains:
        return tuned
    # A task says itself whether it goes on from checkpoints; of other scripts that is not known.
    loose = load_loosely(stack, environ) if command.kind.is_yours else ()
    settings = [*tuned.settings, *prepare_restarts(world, environ), *loose]
    return tuned._replace(settings=settings)


def assemble(
    environ: Mapping[str, str],
    identity: Identity,
    forced: list[Setting],
    defaults: list[Setting],
    removed: Collection[str] = (),
) -> Prepared:
    """Return the environment of the command without what is removed.

    The user's preloads stay, and the library that gives us a name is last.
    """
    before = {**environ, **identity.variables}
    parts = [part for part in environ.get("LD_PRELOAD", "").split(":") if part]
    name = identity.preload or next((part for part in parts if "libnss_wrapper" in part), None)
    if name:
        yours = [part for part in parts if part != name]
        preloads = next((setting.value for setting in defaults if setting.name == "LD_PRELOAD"), "")
        mine = [part for part in preloads.split(":") if part and part != name]
        before["LD_PRELOAD"] = ":".join([*yours, name])
        forced = [*forced, Setting("LD_PRELOAD", ":".join([*(yours or mine), name]), "the name of this user")]
    prepared = prepare(before, forced, defaults, removed)
    return prepared._replace(added={**identity.variables, **prepared.added})
