"""Whether all ranks see one directory: they answer each other in it at every start, and all do what rank 0 says then.

What an earlier start has left there proves nothing: a machine with a directory of its own may have been one node then
and be another now, and two containers may have one name. So rank 0 leaves a new word, every other rank answers with it
and a new word of its own, and rank 0 repeats these in its verdict. Who finds its own there has met rank 0, and rank 0
has met all.

A rank that waits no longer writes the verdict itself, before rank 0 can: the file must not exist (O_EXCL), so there is
one verdict for all. No clocks are compared. Every look writes a file: NFS then asks its server what else is new there
(nfs(5), "Directory entry caching").
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.container.files import create, list_directory, read_text, remove, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds that a rank waits for the others, and between two looks.
WAIT, LOOK = 60.0, 0.5
VERDICT = "verdict."
# The verdict of a rank that waits no longer.
APART = "[]"


class Seat(NamedTuple):
    """The place of a rank in a meeting: the directory, its number and how many there are, its word, and its clock."""

    directory: str
    rank: int
    size: int
    word: str
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def name(self, other: object) -> str:
        """Return the path of another rank's answer, or of a verdict."""
        return f"{self.directory}/{other}"


def meet(seat: Seat, choice: str) -> str | None:
    """Return the choice of rank 0 once all ranks have answered each other in a directory; None if not all have.

    Raises OSError if the directory cannot be written any more when others may rely on this rank.
    """
    try:
        prepare(seat)
        write_whole(seat.name(seat.rank), seat.word)
    except OSError:  # who cannot write here shares nothing
        return None
    return follow(seat) if seat.rank else lead(seat, choice)


def prepare(seat: Seat) -> None:
    """Make the directory, for any uid of this group; rank 0 removes what earlier starts have decided."""
    os.makedirs(seat.directory, exist_ok=True)
    if os.stat(seat.directory).st_uid == os.getuid():
        os.chmod(seat.directory, 0o775)
    for name in list_directory(seat.directory):
        if name.startswith(VERDICT) and not seat.rank:
            remove(seat.name(name))


def lead(seat: Seat, choice: str) -> str | None:
    """Wait until all have answered our word, and write the verdict."""
    end, words = seat.now() + WAIT, list_answers(seat)
    while len(words) < seat.size - 1 and seat.now() < end:
        seat.sleep(LOOK)
        write_whole(seat.name(seat.rank), seat.word)
        words = list_answers(seat)
    together = len(words) == seat.size - 1
    first = create(seat.name(VERDICT + seat.word), json.dumps([choice, *words]) if together else APART)
    return choice if first and together else None


def list_answers(seat: Seat) -> list[str]:
    """List the words of the ranks that have answered ours."""
    answers = [read_words(seat.name(rank)) for rank in range(1, seat.size)]
    return [answer[0] for answer in answers if answer[1:] == [seat.word]]


def read_words(path: str) -> list[str]:
    """Return the words in a file; none where there is no file."""
    return (read_text(path) or "").split()


def follow(seat: Seat) -> str | None:
    """Answer the word of rank 0 until there is a verdict with our own."""
    end = seat.now() + WAIT
    while True:
        heard = "".join(read_words(seat.name(0))[:1])
        write_whole(seat.name(seat.rank), f"{seat.word} {heard}")
        verdict = seat.name(VERDICT + heard)
        found = read_verdict(verdict, seat.word)
        if found is not None:
            return found
        if seat.now() > end:
            return None if create(verdict, APART) else await_verdict(verdict, seat)
        seat.sleep(LOOK)


def await_verdict(path: str, seat: Seat) -> str | None:
    """Return the choice in a verdict that is there; it may be empty for as long as it takes to write one."""
    end = seat.now() + WAIT
    while not read_text(path) and seat.now() < end:
        seat.sleep(LOOK)
    return read_verdict(path, seat.word)


def read_verdict(path: str, word: str) -> str | None:
    """Return the choice in a verdict that has a word; None where there is none, or it is not written to its end."""
    try:
        found = json.loads(read_text(path) or APART)
        return str(found[0]) if word in found[1:] else None
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
