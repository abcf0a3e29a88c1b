"""What is known before anybody waits: a program with all its arguments, its run and its places; and what is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from multinode_image.errors import Refusal
from multinode_image.facts import Facts
from multinode_image.machine.files import can_write
from multinode_image.machine.places import (
    check_output,
    explain_closed,
    find_caches,
    find_closed,
    list_caches,
    list_lost,
)
from multinode_image.numbers import LAST_PORT, whole
from multinode_image.results.plan import find_results, find_script, plan_run
from multinode_image.results.record import RESULTS, STATE_DIRECTORY, Run, check_directory
from multinode_image.settings import BF16, EMULATE, LOGS, METRICS, Setting, overlay
from multinode_image.situation import Situation
from multinode_image.tasks.arguments import Program, read_program
from multinode_image.tasks.batches import advise_padding
from multinode_image.tasks.command import SCRIPT
from multinode_image.tasks.defaults import OUTPUT_DIR
from multinode_image.tuning.gradients import read_choice

# Insists on bf16 where no unit of the processor computes in it.


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
        places += [f"{each.why}: downloads go to {each.value}" for each in caches if each.name == "HF_HOME"]
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
