"""What a job is asked to train, in a variable for its processes: by it two jobs tell that they have met at one port."""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from multinode_image.results.identity import digest_files, identify_script, identify_task
from multinode_image.results.plan import find_script
from multinode_image.tasks.command import Command
from multinode_image.world.torchrun import ID

# Read by hooks/groups/same_job.py.
VARIABLE = "MULTINODE_WORDS"
MOST = 200  # characters that are shown


def name_words(command: Command, arguments: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with a digest of what is typed on all nodes alike, and the words; none where nobody knows.

    An id that the user gives to the job stands for all of it: words may differ between nodes then.
    """
    if environ.get(ID):
        return {VARIABLE: write_words([("", environ[ID])], ID)}
    name, words = (command.name, command.words) if command.task else find_script(command)
    if not name:
        return {}
    pairs = identify_task(arguments, command.task.kind) if command.task else identify_script(words)
    files = digest_files([("", name), *pairs])
    shown = " ".join(word for flag, value in pairs for word in (flag and f"--{flag}", value) if word)
    return {VARIABLE: write_words([("", name), *pairs, *files.items()], f"{name} {shown}".strip())}


def write_words(pairs: list[tuple[str, str]], shown: str) -> str:
    """Return a digest and what is shown."""
    return f"{crc32(repr(pairs).encode(errors='surrogateescape')):08x} {shown[:MOST]}"
