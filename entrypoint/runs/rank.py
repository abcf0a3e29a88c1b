"""A rank of torchrun: at every start it looks anew for the checkpoint to go on from.

The agent of torchrun starts its workers again with the command line that it began with (torch/distributed/elastic).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from entrypoint.container.files import read_text
from entrypoint.runs.record import find_last
from entrypoint.streams import print_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from entrypoint.launchers.world import World

# The directory of a run whose script takes --resume_from_checkpoint.
RESUME = "MULTINODE_RESUME"
FLAG = "resume_from_checkpoint"


def add_resume(
    words: list[str], environ: Mapping[str, str], world: World, write: Callable[[str, str], str]
) -> list[str]:
    """Return the command line of a rank with the last checkpoint of its run; write: makes a private file of a text."""
    directory = environ.get(RESUME)
    if not directory:
        return words
    last, note = find_last(directory, world.nodes[1])
    if not world.rank and note:
        print_error(f"multinode: {note}")
    return set_argument(words, FLAG, f"{directory}/{last.name}", write) if last else words


def set_argument(words: list[str], name: str, value: str, write: Callable[[str, str], str]) -> list[str]:
    """Return a command line with an argument more; a script that takes a lone JSON file gets it in a copy of that."""
    if len(words) > 1 and words[-1].endswith(".json") and words[-2].endswith(".py"):
        found = {**json.loads(read_text(words[-1]) or "{}"), name: value}
        return [*words[:-1], write(f"{name}.json", json.dumps(found, indent=1))]
    return [*words, f"--{name}", value]
