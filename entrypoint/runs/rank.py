"""A rank of torchrun: at every start it looks again for the checkpoint to go on from.

The agent of torchrun starts its workers again with the command line that it began with (torch/distributed/elastic).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.container.files import read_text
from entrypoint.printing.streams import print_note
from entrypoint.runs.record import find_last
from entrypoint.training.command import Program, set_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from entrypoint.launchers.world import World

# The directory of a run whose script takes --resume_from_checkpoint.
RESUME = "MULTINODE_RESUME"
FLAG = "resume_from_checkpoint"


def add_resume(
    words: list[str], environ: Mapping[str, str], world: World, write: Callable[[str, str], object]
) -> list[str]:
    """Return the command line of a rank with the last checkpoint of its run; write: writes a private file."""
    directory = environ.get(RESUME)
    if not directory:
        return words
    last, note = find_last(directory, world.nodes[1])
    if not world.rank and note:
        print_note(note)
    if last is None:
        return words
    # The first start of a run pays nothing for these.
    from entrypoint.runs.steps import keep_steps
    from entrypoint.training.arguments import read_given

    begin = next((place for place, word in enumerate(words) if word.endswith(".py")), 0)
    given = read_given(words[begin + 1 :], read_text, strict=False)
    program = set_argument(FLAG, Program(words[begin:], [], given), FLAG, f"{directory}/{last.name}")
    program, note = keep_steps(FLAG, program, directory, last.name, world.sizes[1])
    if not world.rank and note:
        print_note(note)
    for path, text in program.files.items():
        write(path, text)
    return [*words[:begin], *program.words]
