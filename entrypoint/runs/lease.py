"""The lease of a directory: a file that says which job writes there, renewed while it runs.

Nothing here compares the clocks of two machines: to see whether a job still renews its lease, the file is watched for a
while by our own clock, and anew if the file system did not answer meanwhile. There is no lock, because not every
network file system has them; a file that must not exist (O_EXCL) and a rename are atomic on all of them. A renewal is a
new file under the old name: who opens the name gets the new text, not one that this machine has cached.
"""

from __future__ import annotations

import errno
import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.machine.files import create, name_aside, read_text, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds between two renewals, seconds without a renewal after which a lease counts as left behind, and seconds between
# two looks at it. A lease of our own name is nearly always that of an earlier start: it is watched for one renewal and
# a little more.
RENEW, EXPIRES, LOOK = 5.0, 20.0, 0.5
TWIN = RENEW + 1


class Lease(NamedTuple):
    """What is in the file: the job, the host it runs on, and a word that each renewal changes."""

    owner: str
    host: str
    beat: str


class Clock(NamedTuple):
    """The clock of this machine: seconds that only grow, and how to wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def read_lease(path: str) -> Lease | None:
    """Return the lease in a file, None if there is no file; the owner of a half-written one is unknown."""
    text = read_text(path)
    if text is None:
        return None
    try:
        found = json.loads(text)
        return Lease(str(found["owner"]), str(found["host"]), str(found["beat"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Lease("", "an unknown host", text)


def make_text(owner: str, host: str) -> str:
    """Return the text of a lease that is new, or renewed."""
    return json.dumps(Lease(owner, host, os.urandom(8).hex())._asdict())


def renew(path: str, owner: str, host: str) -> bool:
    """Renew our lease, and return whether it was still ours."""
    held = read_lease(path)
    if held is None or held.owner != owner:
        return False
    write_whole(path, make_text(owner, host))
    return True


def release(path: str, owner: str) -> None:
    """Remove the lease if it is ours."""
    held = read_lease(path)
    if held is not None and held.owner == owner:
        os.unlink(path)


def check_twin(path: str, owner: str, clock: Clock, say: Callable[[str], None]) -> None:
    """Raise Refusal if a second job of our name renews the lease; one that nobody renews is from our earlier start.

    Two jobs have one name where a job was submitted twice, or where two networks have a node of the same name.
    """
    held = read_lease(path)
    if held is None or held.owner != owner:
        return
    say(f"a job of this name has left its lease {path}; {TWIN:.0f} s will tell whether it still runs")
    if is_renewed(path, held, clock, TWIN):
        raise refuse(path, held)


def check_other(path: str, owner: str, clock: Clock) -> None:
    """Raise Refusal if another job renews the lease, as rank 0 of our job does."""
    held = read_lease(path)
    while held is not None and held.owner != owner and is_renewed(path, held, clock, EXPIRES):
        now = read_lease(path)  # another owner may be rank 0 of our job
        if now is not None and now.owner == held.owner:
            raise refuse(path, now)
        held = now


def refuse(path: str, held: Lease) -> Refusal:
    """Return the error of a directory whose lease another job renews."""
    remedy = f"--output_dir ANOTHER, or end that job and try again: {path} expires {EXPIRES:.0f} s later"
    return Refusal("another job writes to the directory for results", f"{path}: a job on {held.host}", remedy)


def take(
    path: str, owner: str, host: str, clock: Clock, say: Callable[[str], None], *, shares: bool = False
) -> Lease | None:
    """Take the lease, and return that of our job if it was there already; raise Refusal if another job renews it.

    shares: whether other nodes of our job take it too, maybe while this one waits for the end of another job's lease.
    """
    end = clock.now() + EXPIRES
    while not create(path, make_text(owner, host)):
        held = read_lease(path)
        if held is None:  # released just now, or not seen yet by this machine, or another user's
            if clock.now() > end:
                raise PermissionError(errno.EACCES, "cannot be read", path)
            clock.sleep(LOOK)
            continue
        if held.owner == owner and renew(path, owner, host):
            return held
        say(f"a job on {held.host} has left its lease {path}; {EXPIRES:.0f} s will tell whether it still runs")
        if not is_renewed(path, held, clock, EXPIRES):
            steal(path, held)
            continue
        now = read_lease(path) or held
        if now.owner and not (shares and now.owner == owner):  # the owner of a half-written one is asked for again
            raise refuse(path, now)
    return None


def is_renewed(path: str, held: Lease, clock: Clock, seconds: float) -> bool:
    """Watch a lease for some seconds, and return whether it was renewed in them.

    If a look took long, the file system or this machine stood still, and nobody could renew: watching begins again.
    """
    end = clock.now() + seconds
    while (before := clock.now()) < end:
        clock.sleep(LOOK)
        now = read_lease(path)
        if now != held:
            return now is not None
        if clock.now() - before > RENEW:
            end = clock.now() + seconds
    return False


def steal(path: str, held: Lease) -> None:
    """Remove a lease that was left behind; put it back if it was renewed, or taken by another, in this very moment."""
    aside = name_aside(path)
    try:
        os.rename(path, aside)
    except FileNotFoundError:  # another job was faster
        return
    if read_lease(aside) != held and not os.path.lexists(path):
        os.rename(aside, path)
    else:
        os.unlink(aside)
