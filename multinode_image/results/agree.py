"""All ranks do the same at a start: rank 0 says what, the others say whether they can, and all learn the answer.

They meet at the address of rank 0 before torch does, on a port that follows from the job's own, and only for as long as
that takes. Nothing is left of it, so no earlier start can be taken for this one. A rank that does not get the answer
never begins; it tries again until all come, as ranks do that torchrun starts again one after the other. A rank of
another job that has the same port is sent away. Whoever reaches the port and knows the job can answer for a rank, as
with torch's own store: at worst the training begins at another step, on all ranks.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from zlib import crc32

from multinode_image import timeouts
from multinode_image.addresses import PORT
from multinode_image.errors import EXIT_OUTSIDE, EXIT_USER, LATER, Refusal, one_row
from multinode_image.numbers import whole
from multinode_image.world.model import World
from multinode_image.world.ranks import PORTS

PAUSE = 0.3  # between two tries
YES, NO, REFUSED = "yes", "no", "refused"
# More than a line of ours has, and callers who have not said who they are: a scanner may leave thousands open.
LONGEST, MOST = 1 << 16, 256

Ranks = dict[int, socket.socket]


def choose_meeting_port(world: World) -> int:
    """Return the port on which the ranks of a job agree: another one than that on which they train."""
    return PORTS[(world.port or PORT) % len(PORTS)]


def agree(world: World, job: str, offer: str, accepts: Callable[[str], bool], wait: float = timeouts.RANKS) -> str:
    """Return what rank 0 has offered if all ranks accept it, else an empty text; the same on all of them.

    job: what only the ranks of this job know; offer: a line, which counts on rank 0 alone; empty where it has nothing
    to offer. Raise Refusal where not all ranks come in time, or one of them was refused.
    """
    end = time.monotonic() + wait
    return follow(world, job, accepts, end) if world.rank else lead(world, job, offer, end)


def tell_refused(world: World, job: str, note: str, code: int, wait: float = timeouts.REFUSAL) -> None:
    """Tell the ranks that wait for rank 0, which this is, that it was refused, so that they end, too; note: why."""
    with contextlib.suppress(Refusal):
        for caller in admit_ranks(world, job, time.monotonic() + wait).values():
            with contextlib.suppress(OSError), caller:
                send(caller, f"{REFUSED} {code} rank 0: {one_row(note)}")


def introduce(world: World, job: str) -> str:
    """Return the line with which a rank calls."""
    return f"{world.sizes[1]} {crc32(job.encode(errors='surrogateescape')):08x} {world.rank}"


def lead(world: World, job: str, offer: str, end: float) -> str:
    """Make the offer to all other ranks, and return it if they all accept."""
    ranks = admit_ranks(world, job, end)
    try:
        if missing := sorted({*range(1, world.sizes[1])} - ranks.keys()):
            raise explain_missing(f"rank {missing[0]} has not come")
        for caller in ranks.values():
            send(caller, offer)
        answers = [receive(caller, end) for caller in ranks.values()]
        agreed = all(answer == YES for answer in answers)
        for caller in ranks.values():
            send(caller, YES if agreed else NO)
    except OSError as error:
        raise explain_missing(f"a rank has left: {error}") from None
    finally:
        for caller in ranks.values():
            caller.close()
    return offer if agreed else ""


class Callers:
    """Open calls at rank 0 from ranks that have not sent their name yet; a slow one does not delay the others."""

    def __init__(self, server: socket.socket) -> None:
        """Take the socket on which they call."""
        self.server, self.selector = server, selectors.DefaultSelector()
        self.said: dict[socket.socket, tuple[float, bytes]] = {}  # until when each may speak, and what it has said
        server.setblocking(False)
        self.selector.register(server, selectors.EVENT_READ)

    def hear(self, seconds: float) -> Iterator[tuple[socket.socket, str]]:
        """Wait for new calls and data, and yield each connection that has sent a whole line, with the line."""
        for key, _ in self.selector.select(seconds):
            caller = key.fileobj
            if caller is self.server:
                with contextlib.suppress(OSError):  # it may have left already
                    self._greet(self.server.accept()[0])
            elif isinstance(caller, socket.socket) and (line := self._listen(caller)) is not None:
                yield caller, line
        for caller in [each for each, (until, _) in self.said.items() if until < time.monotonic()]:
            self._forget(caller).close()

    def close(self) -> None:
        """Send all away."""
        for caller in [*self.said]:
            self._forget(caller).close()
        self.selector.close()

    def _greet(self, caller: socket.socket) -> None:
        if len(self.said) >= MOST:
            self._forget(next(iter(self.said))).close()
        caller.setblocking(False)
        self.selector.register(caller, selectors.EVENT_READ)
        self.said[caller] = (time.monotonic() + timeouts.STRANGER, b"")

    def _listen(self, caller: socket.socket) -> str | None:
        """Return the line of a caller, empty where it has left; None while it has not ended."""
        until, said = self.said[caller]
        try:
            part = caller.recv(LONGEST)
        except OSError:
            part = b""
        self.said[caller] = (until, said + part)
        if part and b"\n" not in part and len(said) < LONGEST:
            return None
        self._forget(caller)
        return (said + part).decode(errors="replace").strip()

    def _forget(self, caller: socket.socket) -> socket.socket:
        self.selector.unregister(caller)
        del self.said[caller]
        return caller


def admit_ranks(world: World, job: str, end: float) -> Ranks:
    """Let all other ranks in, and return those that have come in time."""
    ranks: Ranks = {}
    with listen(choose_meeting_port(world), end) as server, contextlib.closing(Callers(server)) as callers:
        while count_callers(ranks) < world.sizes[1] - 1 and (left := end - time.monotonic()) > 0:
            for caller, line in callers.hear(min(left, timeouts.STRANGER)):
                admit(caller, line, world, job, ranks)
    return ranks


def listen(port: int, end: float) -> socket.socket:
    """Return a socket on which all may call; another job may have the port for a moment.

    Raise Refusal if it keeps the port.
    """
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    while True:
        try:
            return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)
        except OSError as error:
            if time.monotonic() > end:
                remedy = "start again when that program has ended, or with another MASTER_PORT on every node"
                fact = f"the port on which ranks agree on a checkpoint cannot be had ({error.strerror})"
                raise Refusal(fact, port, remedy, LATER) from None
        time.sleep(PAUSE)


def admit(caller: socket.socket, name: str, world: World, job: str, ranks: Ranks) -> None:
    """Let a caller in, if it is a rank of this job; one that calls again takes the place of its first call."""
    rank = whole(name.rpartition(" ")[2]) or 0
    if name != introduce(world._replace(rank=rank), job) or not 0 < rank < world.sizes[1]:
        caller.close()
        return
    if rank in ranks:
        ranks[rank].close()
    ranks[rank] = caller


def count_callers(ranks: Ranks) -> int:
    """Return how many ranks wait for an answer; one that was killed meanwhile calls again when it is started again."""
    for rank, caller in list(ranks.items()):
        caller.setblocking(False)
        try:
            caller.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            continue
        except OSError:
            pass
        ranks.pop(rank).close()  # nothing comes from one that was not asked yet, but its end
    return len(ranks)


def follow(world: World, job: str, accepts: Callable[[str], bool], end: float) -> str:
    """Call rank 0 until it answers, say whether we accept its offer, and return that if all do."""
    address = (world.master or "", choose_meeting_port(world))
    while True:
        try:
            with socket.create_connection(address, timeouts.STRANGER) as caller:
                send(caller, introduce(world, job))
                offer = receive(caller, end)
                check_offer(offer)
                send(caller, YES if accepts(offer) else NO)
                return offer if receive(caller, end) == YES else ""
        except OSError as error:
            if time.monotonic() > end:
                raise explain_missing(f"rank 0 does not answer at {address[0]}:{address[1]}: {error}") from None
        time.sleep(PAUSE)


def check_offer(offer: str) -> None:
    """Raise Refusal where what comes in the place of an offer is that rank 0 was refused."""
    word, _, rest = offer.partition(" ")
    if word == REFUSED:
        code, _, why = rest.partition(" ")
        of_all = {str(each): each for each in (EXIT_USER, EXIT_OUTSIDE, LATER)}.get(code, EXIT_OUTSIDE)
        raise Refusal("another rank was refused, so none begins", why, "what is said there", of_all)


def send(to: socket.socket, line: str) -> None:
    """Send a line."""
    to.settimeout(timeouts.STRANGER)
    to.sendall(f"{line}\n".encode())


def receive(caller: socket.socket, end: float) -> str:
    """Return the next line; raise OSError where the other end has left, or says nothing in time."""
    line = b""
    while not line.endswith(b"\n"):
        caller.settimeout(max(end - time.monotonic(), 0.01))
        part = caller.recv(LONGEST)
        if not part or len(line) > LONGEST:
            raise ConnectionError("the connection was closed")
        line += part
    return line.decode(errors="replace").strip()


def explain_missing(value: str) -> Refusal:
    """Return the error of ranks that have not all met."""
    remedy = "start all ranks again; if the network between the nodes blocks ports, open those from 20000 to 29000"
    return Refusal("the ranks did not agree on where the training goes on", value, remedy, LATER)
