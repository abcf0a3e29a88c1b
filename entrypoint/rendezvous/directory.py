"""Whether all ranks see one directory: they answer each other in it at every start, and all do what rank 0 says then.

What an earlier start has left there proves nothing: a machine with a directory of its own may have been one node then
and be another now, and two containers may have one name. So rank 0 leaves a new word, every other rank answers with it
and a new word of its own, and rank 0 repeats these in its verdict. Who finds its own there has met rank 0, and rank 0
has met all.

A rank that waits no longer writes the verdict itself, before rank 0 can: the file must not exist (O_EXCL), so there is
one verdict for all. The last verdict of ranks that have met stays: in such a directory nobody begins anew because a
rank is late, or has started again without the others. No clocks are compared. Every look writes a file: NFS then asks
its server what else is new there (nfs(5), "Directory entry caching").
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import LATER, Refusal
from entrypoint.machine.files import create, list_directory, make_shared, read_text, remove, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Seconds that ranks wait which have met elsewhere before, and which others may start much later (an image that is
# fetched); and between the first looks, and at most.
WAIT, LONG_WAIT, LOOK, LONGEST = 60.0, 600.0, 0.5, 5.0
VERDICT = "verdict."
# The verdict of a rank that waits no longer.
APART = "[]"


class Seat(NamedTuple):
    """The place of a rank in a meeting: the directory, its number and how many there are, its word, and its clock.

    wait: the seconds that it waits for the others.
    """

    directory: str
    rank: int
    size: int
    word: str
    wait: float
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def name(self, other: object) -> str:
        """Return the path of another rank's answer, or of a verdict."""
        return f"{self.directory}/{other}"


def meet(seat: Seat, choice: str) -> str | None:
    """Return the choice of rank 0 once all ranks have answered each other in a directory; None if they never have.

    Raises Refusal where they have at an earlier start, and OSError for a directory that cannot be written.
    """
    make_shared(seat.directory)
    write_whole(seat.name(seat.rank), seat.word)
    found = follow(seat) if seat.rank else lead(seat, choice)
    if found is None and any(read_verdict(seat.name(name)) for name in list_verdicts(seat)):
        fact = f"not all ranks have answered within {seat.wait:.0f} s in a directory in which they have met before"
        remedy = f"start all ranks again; only if each node has a directory of its own now: rm -r {seat.directory}"
        raise Refusal(fact, seat.directory, remedy, LATER)
    return found


def lead(seat: Seat, choice: str) -> str | None:
    """Wait until all have answered our word, and write the verdict."""
    words = list_answers(seat)
    for pause in list_pauses(seat):
        if len(words) == seat.size - 1:
            break
        seat.sleep(pause)
        write_whole(seat.name(seat.rank), seat.word)
        words = list_answers(seat)
    together = len(words) == seat.size - 1
    earlier = list_verdicts(seat)
    if not create(seat.name(VERDICT + seat.word), json.dumps([choice, *words]) if together else APART):
        return None
    for name in earlier:
        if together or not read_verdict(seat.name(name)):
            remove(seat.name(name))
    return choice if together else None


def list_pauses(seat: Seat) -> Iterator[float]:
    """Yield the seconds between two looks until the wait is over: longer and longer, for a server with many ranks."""
    end, pause = seat.now() + seat.wait, LOOK
    while seat.now() < end:
        yield pause
        pause = min(pause * 1.2, LONGEST)


def list_verdicts(seat: Seat) -> list[str]:
    """List the names of all verdicts."""
    return [name for name in list_directory(seat.directory) if name.startswith(VERDICT)]


def list_answers(seat: Seat) -> list[str]:
    """List the words of the ranks that have answered ours."""
    answers = [read_words(seat.name(rank)) for rank in range(1, seat.size)]
    return [answer[0] for answer in answers if answer[1:] == [seat.word]]


def read_words(path: str) -> list[str]:
    """Return the words in a file; none where there is no file."""
    return (read_text(path) or "").split()


def follow(seat: Seat) -> str | None:
    """Answer the word of rank 0 until there is a verdict with our own."""
    heard, verdict = "", seat.name(VERDICT)
    for pause in list_pauses(seat):
        heard = "".join(read_words(seat.name(0))[:1]) or heard
        write_whole(seat.name(seat.rank), f"{seat.word} {heard}")
        verdict = seat.name(VERDICT + heard)
        found = read_verdict(verdict)
        if seat.word in found[1:]:
            return found[0]
        seat.sleep(pause)
    return None if create(verdict, APART) else await_verdict(verdict, seat)


def await_verdict(path: str, seat: Seat) -> str | None:
    """Return the choice in a verdict that is there; it may be empty for as long as it takes to write one."""
    for pause in list_pauses(seat):
        if read_text(path):
            break
        seat.sleep(pause)
    choice, *words = read_verdict(path) or [""]
    return choice if seat.word in words else None


def read_verdict(path: str) -> list[str]:
    """Return the choice of ranks that have met, and their words; nothing for ranks that have not, or half a verdict."""
    try:
        found = json.loads(read_text(path) or APART)
    except (ValueError, RecursionError):
        return []
    return [*map(str, found)] if isinstance(found, list) else []
