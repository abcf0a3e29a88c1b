"""A rank: at every start it looks again for the checkpoint to go on from, together with the ranks of other nodes.

The agent of torchrun starts its workers again with the command line that it began with (torch/distributed/elastic).
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from entrypoint.errors import WORLD, Refusal
from entrypoint.faults.disks import explain_full
from entrypoint.machine.files import read_text
from entrypoint.printing.streams import print_note
from entrypoint.runs.record import FLAG, OWN, find_last
from entrypoint.tasks.arguments import Program, read_given, set_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from entrypoint.world.model import World

# The directory of a run whose script takes --resume_from_checkpoint.
RESUME = "MULTINODE_RESUME"


def find_together(directory: str, world: World, *, joined: bool) -> tuple[str | None, str]:
    """Return the name of the checkpoint that all ranks go on from, None if there is none, and a note for the log.

    joined: whether the ranks have met already, in a rendezvous. Raises Refusal where not all ranks come to a directory
    in which they have met before, or where it cannot be written.
    """
    last, note = find_last(directory)
    if last is None or not world.several_nodes:
        return (last.name if last else None), note
    from entrypoint.rendezvous.directory import LONG_WAIT, WAIT, Seat, meet  # most starts find none, or have one node

    wait = WAIT if joined else LONG_WAIT
    seat = Seat(f"{directory}/{OWN}/ranks", world.rank or 0, world.sizes[1], os.urandom(8).hex(), wait)
    if not joined and not world.local_rank:
        print_note(f"waits until all ranks have answered in {seat.directory}, at most {wait:.0f} s")
    try:
        name = meet(seat, last.name)
    except OSError as error:
        raise explain_unwritable(seat.directory, error) from None
    if name is None:
        why = f"not all ranks have answered in this directory within {wait:.0f} s"
        note = f"{directory}/{last.name} is not used: {why}; to go on from it, mount one directory on all nodes"
    return name, note


def has_joined(environ: Mapping[str, str]) -> bool:
    """Return whether the ranks of this start have met in a rendezvous of torchrun.

    Agents with a master meet once: each starts its ranks again by itself (torch/distributed/elastic/rendezvous,
    static_tcp_rendezvous.py, next_rendezvous).
    """
    elastic = environ.get("PET_RDZV_ENDPOINT") or environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    return "TORCHELASTIC_RUN_ID" in environ and bool(elastic)


def explain_unwritable(directory: str, error: OSError) -> Refusal:
    """Return the message for a directory in which a rank cannot answer: it would begin anew, and the others not."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return explain_full(directory)
    value = f"{error.filename or directory} ({error.strerror})"
    return Refusal("the directory for results cannot be written", value, "mount it so that every rank may write", WORLD)


def add_resume(
    words: list[str], environ: Mapping[str, str], world: World, write: Callable[[str, str], object]
) -> list[str]:
    """Return the command line of a rank with the last checkpoint of its run; write: writes a private file."""
    directory = environ.get(RESUME)
    if not directory:
        return words
    last, note = find_together(directory, world, joined=has_joined(environ))
    # A node may be alone with its checkpoint, and wait for others in vain.
    if note and not (world.rank if last else world.local_rank):
        print_note(note)
    if last is None:
        return words
    # The first start of a run pays nothing for these.
    from entrypoint.runs.steps import keep_steps

    begin = next((place for place, word in enumerate(words) if word.endswith(".py")), 0)
    given = read_given(words[begin + 1 :], read_text, strict=False)
    program = set_argument(FLAG, Program(words[begin:], [], given), FLAG, f"{directory}/{last}")
    program, note = keep_steps(FLAG, program, directory, last, world.sizes[1])
    if not world.rank and note:
        print_note(note)
    for path, text in program.files.items():
        write(path, text)
    return [*words[:begin], *program.words]
