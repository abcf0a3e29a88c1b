"""Put the plan of a start together: a command in its world, and the facts -> what is run, with which variables."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from multinode_image.facts import Facts
from multinode_image.machine.certificates import trust_certificate
from multinode_image.machine.cpus import Machine
from multinode_image.machine.identity import Identity
from multinode_image.machine.image import warn_hidden, warn_stack
from multinode_image.machine.network import find_interface
from multinode_image.machine.places import CERTIFICATE
from multinode_image.preflight import Preflight
from multinode_image.results.record import Run
from multinode_image.settings import LOGS, Prepared, Setting, prepare, warn_mistyped
from multinode_image.situation import Situation
from multinode_image.tasks import argv
from multinode_image.tasks.arguments import read_batch
from multinode_image.tuning.context import Process
from multinode_image.tuning.handover import CORES, RANK_PROGRAM
from multinode_image.tuning.oneccl import take_setvars, without_image
from multinode_image.tuning.variables import Tuned, set_rank_variables, settle_size, tune
from multinode_image.world.agent import prepare_restarts, set_agent_variables
from multinode_image.world.model import TORCHRUN, World
from multinode_image.world.size import may_differ


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
    prepared = assemble(drop_variables(environ, tuned.removed), facts.identity, forced, defaults)
    return Plan(
        facts=facts,
        situation=situation,
        prepared=prepared,
        argv=argv.make_argv(command, situation.world, program.words, prepared.environ, stack.torch),
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
        reasons={each.name: each.why for each in [*forced, *defaults]},
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
    count = world.local_size if situation.starter is not None and situation.starter.needs_count else None
    forced = [
        *set_rank_variables(world, environ),
        *(settle_size(world, environ) if situation.command.trains else []),
        *ahead.caches,
        *sourced,
        *(set_agent_variables(world, situation.described, environ, count) if situation.role.trains else []),
        *ahead.program.forced,
    ]
    of_image = {each.name for each in sourced} | (environ.keys() - without_image(environ, stack).keys())
    defaults = [*(each for each in usual if each.name not in of_image), *ahead.program.defaults]
    if CORES in {each.name for each in defaults} or (environ.get(LOGS) and situation.role.is_torchrun):
        defaults.append(Setting("PYTHON_EXEC", RANK_PROGRAM, "a rank of torchrun reads what is handed to it first"))
    return forced, defaults


def drop_variables(environ: Mapping[str, str], removed: Collection[str]) -> dict[str, str]:
    """Return the environment without some variables, and without an empty PET_STANDALONE, on which torchrun fails."""
    empty = {name for name, value in environ.items() if name.startswith("PET_") and not value}
    return {name: value for name, value in environ.items() if name not in removed and name not in empty}


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
    if not situation.role.trains:
        return tuned
    # A task says itself whether it goes on from checkpoints; of other scripts that is not known.
    loose = argv.load_loosely(stack, environ) if command.kind.is_yours else ()
    settings = [*tuned.settings, *prepare_restarts(world, situation.described, environ), *loose]
    return tuned._replace(settings=settings)


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
