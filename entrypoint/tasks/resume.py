"""The checkpoint from which all ranks of a run go on: the last complete one, or none on all of them.

Rank 0 chooses it, and the others show that they see its directory (rendezvous/agree.py). Where not all do, all begin at
step 0. A rank that torchrun starts asks for itself, again after one has died: torchrun repeats its first command line.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Callable

from entrypoint.errors import EXIT_OUTSIDE, Refusal
from entrypoint.machine.shared import make_shared, open_shared
from entrypoint.rendezvous.agree import agree, tell_refused
from entrypoint.tasks.aliases import split_flags
from entrypoint.tasks.arguments import Program, name_flags, set_argument
from entrypoint.tasks.checkpoints import PREFIX, STATE, find_last, read_object
from entrypoint.tasks.record import AS_VARIABLE, FLAG, NEVER, RESUME, STATE_DIRECTORY, find_record
from entrypoint.world.model import TORCHRUN_WORKER, World
from entrypoint.world.ranks import read_job_name

# By this variable a rank of torchrun knows how its checkpoint is handed over, and the directory: `flag:/workspace/...`.
RUN = "MULTINODE_RUN"
MAX_STEPS = "max_steps"
# Seconds until a job that is just ending has freed its directory.
PATIENCE = 20.0

Say = Callable[[str], None]


def resume_rank(
    words: list[str], environ: Mapping[str, str], world: World, say: Say
) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the variables of a rank that torchrun starts, with the last checkpoint of its run."""
    handover, _, directory = environ.get(RUN, "").partition(":")
    if not directory:
        return words, {}
    if not world.rank:
        with tell_others(handover, world, environ), make_shared(f"{directory}/{STATE_DIRECTORY}") as own:
            own.lock(PATIENCE)
    return hand_over(handover, directory, words, world, environ, say)


@contextlib.contextmanager
def tell_others(handover: str, world: World, environ: Mapping[str, str]) -> Iterator[None]:
    """Tell the ranks that wait for rank 0 on other nodes if it is refused."""
    try:
        yield
    except (Refusal, OSError) as error:
        if world.rank == 0 and must_agree(world) and handover != NEVER:
            code = error.code if isinstance(error, Refusal) else EXIT_OUTSIDE
            tell_refused(world, read_job_name(environ), getattr(error, "note", str(error)), code)
        raise


def hand_over(
    handover: str, directory: str, words: list[str], world: World, environ: Mapping[str, str], say: Say
) -> tuple[list[str], dict[str, str]]:
    """Return a command line and variables with the checkpoint that all ranks go on from."""
    step = None if handover == NEVER else choose_together(directory, world, read_job_name(environ), say)
    if handover == AS_VARIABLE:
        return words, {RESUME: environ.get(RESUME, "") if step is None else f"{directory}/{PREFIX}{step}"}
    return (words if step is None else add_flags(words, directory, step)), {}


def must_agree(world: World) -> bool:
    """Return whether ranks may begin before rank 0 has looked, as those of a torchrun on one node do not."""
    of_launcher = world.rank is not None and world.launcher != TORCHRUN_WORKER
    return world.several_nodes or (of_launcher and world.several)


def choose_together(directory: str, world: World, job: str, say: Say) -> int | None:
    """Return the step from which all ranks go on; None where they begin at step 0."""
    if world.rank and must_agree(world):
        return read_offer(agree(world, job, "", partial(sees_token, directory)))
    step, note = find_step(directory)
    if must_agree(world):
        with leave_token(directory) if step is not None else contextlib.nullcontext("") as token:
            agreed = read_offer(agree(world, job, "" if step is None else f"{step} {token}", lambda _: True))
        if agreed != step:
            why = "not all nodes see this directory, so all ranks begin at step 0"
            note = f"{directory}/{PREFIX}{step} is not used: {why}; to go on from it, mount one directory on all nodes"
            step = None
    if note and not world.rank:
        say(note)
    return step


@contextlib.contextmanager
def leave_token(directory: str) -> Iterator[str]:
    """Leave a file for a moment whose name nobody knows who does not see this directory."""
    token = f"here.{os.urandom(16).hex()}"
    with make_shared(f"{directory}/{STATE_DIRECTORY}") as own:
        own.write(token, "")
        try:
            yield token
        finally:
            own.remove(token)


def sees_token(directory: str, offer: str) -> bool:
    """Return whether this rank sees the file that rank 0 has left for it."""
    with open_shared(f"{directory}/{STATE_DIRECTORY}") as own:
        return own is not None and own.has(offer.partition(" ")[2])


def read_offer(offer: str) -> int | None:
    """Return the step in an offer, which may come from anybody; None in an empty one."""
    step = offer.partition(" ")[0]
    return int(step) if step.isdecimal() else None


def find_step(directory: str) -> tuple[int | None, str]:
    """Return the step of the last complete checkpoint of the run in a directory, and a note for the log."""
    record = find_record(directory)
    if record is None:
        return None, ""
    step, faults = find_last(directory, record.before)
    then = "begins at step 0" if step is None else f"goes on from {directory}/{PREFIX}{step}"
    if not faults:
        return step, "" if step is None else then
    return step, f"{faults[0]}: {then}"


def add_flags(words: list[str], directory: str, step: int) -> list[str]:
    """Return the command line of a task with a checkpoint, and with the steps that the run has in all.

    The Trainer counts in steps, and computes how many there are from the epochs and the ranks of this start. Another
    number of ranks would follow another schedule of the learning rate (transformers/trainer.py, _init_training_state).
    """
    place = f"{directory}/{PREFIX}{step}"
    begin = next((number for number, word in enumerate(words) if word.endswith(".py")), 0)
    program = Program(words[begin:], [], name_flags(split_flags(words[begin + 1 :])))
    program = set_argument(program, FLAG, place)
    total = read_object(Path(place, STATE)).get(MAX_STEPS)
    typed = str(program.arguments.get(MAX_STEPS, "-1"))
    if typed.startswith("-") and isinstance(total, int) and total > 0:
        program = set_argument(program, MAX_STEPS, total)
    return [*words[:begin], *program.words]
