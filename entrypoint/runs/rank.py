"""A rank: at every start it looks again for the checkpoint to go on from, together with the ranks of other nodes.

The agent of torchrun starts its workers again with the command line that it began with (torch/distributed/elastic).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.container.files import read_text
from entrypoint.printing.streams import print_note
from entrypoint.runs.record import FLAG, OWN, find_last
from entrypoint.training.command import Program, set_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from entrypoint.launchers.world import World

# The directory of a run whose script takes --resume_from_checkpoint.
RESUME = "MULTINODE_RESUME"


def find_together(directory: str, world: World) -> tuple[str | None, str]:
    """Return the name of the checkpoint that all ranks go on from, None if there is none, and a note for the log."""
    last, note = find_last(directory)
    if last is None or not world.several_nodes:
        return (last.name if last else None), note
    from entrypoint.meeting.directory import WAIT, Seat, meet  # most starts find no checkpoint, or have one node

    seat = Seat(f"{directory}/{OWN}/ranks", world.rank or 0, world.sizes[1], os.urandom(8).hex())
    name = meet(seat, last.name)
    if name is None:
        why = f"not all ranks have answered in this directory within {WAIT:.0f} s"
        note = f"{directory}/{last.name} is not used: {why}; to go on from it, mount one directory on all nodes"
    return name, note


def add_resume(
    words: list[str], environ: Mapping[str, str], world: World, write: Callable[[str, str], object]
) -> list[str]:
    """Return the command line of a rank with the last checkpoint of its run; write: writes a private file."""
    directory = environ.get(RESUME)
    if not directory:
        return words
    last, note = find_together(directory, world)
    # A node may be alone with its checkpoint, and wait for others in vain.
    if note and not (world.rank if last else world.local_rank):
        print_note(note)
    if last is None:
        return words
    # The first start of a run pays nothing for these.
    from entrypoint.runs.steps import keep_steps
    from entrypoint.training.arguments import read_given

    begin = next((place for place, word in enumerate(words) if word.endswith(".py")), 0)
    given = read_given(words[begin + 1 :], read_text, strict=False)
    program = set_argument(FLAG, Program(words[begin:], [], given), FLAG, f"{directory}/{last}")
    program, note = keep_steps(FLAG, program, directory, last, world.sizes[1])
    if not world.rank and note:
        print_note(note)
    for path, text in program.files.items():
        write(path, text)
    return [*words[:begin], *program.words]
