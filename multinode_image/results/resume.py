"""The start of a run in its directory, and the checkpoint from which all its ranks go on, if there is one.

Rank 0 takes the directory and chooses the checkpoint; the others show that they find the same one (agree.py). Where not
all do, all begin at step 0. A rank that torchrun starts asks for itself, again after one has died: torchrun repeats its
first command line.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Callable

from multinode_image import timeouts
from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.numbers import whole
from multinode_image.results.agree import PAUSE, agree, tell_refused
from multinode_image.results.checkpoints import PREFIX, STATE, digest_state, find_last
from multinode_image.results.identity import FLAG
from multinode_image.results.record import (
    AS_VARIABLE,
    NEVER,
    RESUME,
    STATE_DIRECTORY,
    Run,
    check_run,
    leave_record,
    load_record,
)
from multinode_image.results.shared import Busy, make_shared
from multinode_image.tasks.aliases import split_flags
from multinode_image.tasks.arguments import Program, name_flags, set_argument
from multinode_image.world.model import TORCHRUN_WORKER, World
from multinode_image.world.ranks import read_job_name

# By this variable a rank of torchrun knows how its checkpoint is handed over, and the directory: `flag:/workspace/...`.
RUN = "MULTINODE_RUN"

Say = Callable[[str], None]


def check_directory(run: Run, world: World) -> None:
    """Raise Refusal if the directory holds another run, before anybody waits.

    If nodes have separate directories, each has parts of checkpoints, and only that of rank 0 has the record.
    """
    old = load_record(run.directory)
    if is_first(world) or old is not None:
        check_run(run, old)


def is_first(world: World) -> bool:
    """Return whether rank 0 is here, or may be."""
    return not world.rank and not world.node_rank


def open_run(
    run: Run, argv: list[str], world: World, environ: Mapping[str, str], say: Say
) -> tuple[list[str], dict[str, str]]:
    """Take the directory of a run; return the command line, and the variables that change, with which it goes on.

    Raise Refusal if another job writes there, or it holds another run by now.
    """
    job = read_job_name(environ)
    if is_first(world):
        with tell_others(run.handover, world, job):
            begin(run, world, say)
    if run.starts or run.handover == NEVER:
        return argv, {}
    return hand_over(run.handover, argv, choose_together(run.directory, world, job, say))


def resume_rank(
    words: list[str], environ: Mapping[str, str], world: World, say: Say
) -> tuple[list[str], dict[str, str]]:
    """Return the command line with which a rank that torchrun starts goes on, and the variables that change.

    Raise Refusal if another job writes in the directory.
    """
    (handover, _, directory), job = environ.get(RUN, "").partition(":"), read_job_name(environ)
    if directory and not world.rank:
        with tell_others(handover, world, job):
            make_shared(f"{directory}/{STATE_DIRECTORY}").lock(timeouts.DIRECTORY)
    if not directory or handover == NEVER:
        return words, {}
    return hand_over(handover, words, choose_together(directory, world, job, say))


def begin(run: Run, world: World, say: Say) -> None:
    """Take the lock of the directory where rank 0 is, or may be, and leave the record of the run.

    A process that becomes torchrun lets the lock go: rank 0 takes it again, wherever that will be.
    """
    elastic = world.several_nodes and world.rank is None and world.node_rank is None
    own = make_shared(run.ours)
    try:
        lock = own.lock(0)
    except Busy as busy:
        if elastic:
            return  # ranks of this job are at work, which this node joins late; or another job, as rank 0 finds
        say(f"{busy.finding}; waiting {timeouts.DIRECTORY:g} s for its end")
        lock = own.lock(timeouts.DIRECTORY)
    if lock is None:
        say(f"{run.directory} is on a file system without locks: two jobs at once are not noticed there")
    old = load_record(run.directory)
    check_run(run, old)
    leave_record(run, old, own)
    if lock is not None and run.starts:
        os.close(lock)


@contextlib.contextmanager
def tell_others(handover: str, world: World, job: str) -> Iterator[None]:
    """Tell the ranks that wait for rank 0 on other nodes if it is refused."""
    try:
        yield
    except (Refusal, OSError) as error:
        if world.rank == 0 and must_agree(world) and handover != NEVER:
            code = error.code if isinstance(error, Refusal) else EXIT_OUTSIDE
            tell_refused(world, job, getattr(error, "note", str(error)), code)
        raise


def must_agree(world: World) -> bool:
    """Return whether ranks may begin before rank 0 has looked, as those of a torchrun on one node do not."""
    of_launcher = world.rank is not None and world.launcher != TORCHRUN_WORKER
    return world.several_nodes or (of_launcher and world.several)


def choose_together(directory: str, world: World, job: str, say: Say) -> str:
    """Return the checkpoint from which all ranks go on; empty where they begin at step 0."""
    step, note = (None, "") if world.rank and must_agree(world) else find_step(directory)
    if must_agree(world):
        agreed = agree(world, job, "" if step is None else write_offer(directory, step), partial(finds, directory))
        if step is not None and not agreed:
            why = "not all nodes see this directory, so all ranks begin at step 0"
            note = f"{directory}/{PREFIX}{step} is not used: {why}; to go on from it, mount one directory on all nodes"
        step = read_step(agreed)
    if note and not world.rank:
        say(note)
    return "" if step is None else f"{directory}/{PREFIX}{step}"


def write_offer(directory: str, step: int) -> str:
    """Return a checkpoint as an offer: its step, the name of its run, and a digest of its state.

    Another job's record has another name, and copies of a run that went on apart have another state.
    """
    record = load_record(directory)
    return f"{step} {record.name if record else ''} {digest_state(directory, step)}"


def finds(directory: str, offer: str) -> bool:
    """Return whether this rank has the checkpoint that rank 0 offers.

    Where it sees the same run without that checkpoint, it looks again: a shared file system shows files late.
    """
    step, until = read_step(offer), time.monotonic() + timeouts.SEEN
    if step is None:
        return False
    seen, without = write_offer(directory, step), f"{offer.rpartition(' ')[0]} "
    is_named = without != f"{step}  "  # no record says whether a directory is that of rank 0
    while seen != offer and seen == without and is_named and time.monotonic() < until:
        time.sleep(PAUSE)
        os.listdir(directory)  # anew, which asks the server
        seen = write_offer(directory, step)
    return seen == offer


def read_step(offer: str) -> int | None:
    """Return the step in an offer, which may come from anybody; None in an empty one."""
    return whole(offer.partition(" ")[0])


def find_step(directory: str) -> tuple[int | None, str]:
    """Return the step of the last complete checkpoint of the run in a directory, and a note for the log."""
    record = load_record(directory)
    if record is None:
        return None, ""
    step, faults = find_last(directory, record.filter)
    then = "begins at step 0" if step is None else f"goes on from {directory}/{PREFIX}{step}"
    if step is None and not faults:
        return step, warn_below(directory, record.written)
    return step, f"{faults[0]}: {then}" if faults else then


def warn_below(directory: str, since: int) -> str:
    """Return a note on a run that keeps its checkpoints one level below its directory; empty for any other.

    since: when the run began, in nanoseconds; 0 where that is not known.
    """
    states = list(Path(directory).glob(f"*/{PREFIX}*/{STATE}")) if since else []
    newest = max(states, key=lambda path: path.stat().st_mtime_ns, default=None)
    if newest is None or newest.stat().st_mtime_ns < since:
        return ""
    place = newest.parent
    return f"begins at step 0: {place} is not in {directory} itself; to go on from it, {RESUME}={place}"


def hand_over(handover: str, words: list[str], place: str) -> tuple[list[str], dict[str, str]]:
    """Return a command line and the variables that change with a checkpoint; place: empty where there is none."""
    if not place:
        return words, {}
    return (words, {RESUME: place}) if handover == AS_VARIABLE else (add_flags(words, place), {})


def add_flags(words: list[str], place: str) -> list[str]:
    """Return the command line of a task with a checkpoint; the steps that the run has in all are kept in the rank."""
    begin = next((number for number, word in enumerate(words) if word.endswith(".py")), 0)
    program = Program(words[begin:], [], name_flags(split_flags(words[begin + 1 :])))
    return [*words[:begin], *set_argument(program, FLAG, place).words]
