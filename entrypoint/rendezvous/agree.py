"""All ranks do the same at a start: rank 0 says what, the others say whether they can, and all learn the answer.

They meet at the address of rank 0 before torch does, on a port that follows from the job's own, and only for as long as
that takes. Nothing is left of it, so no earlier start can be taken for this one. A rank that does not get the answer
never begins; it tries again until all come, as ranks do that torchrun starts again one after the other. Whoever reaches
the port can answer for a rank, as with torch's own store: at worst the training begins at another step, on all ranks.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Callable

from entrypoint.errors import LATER, Refusal
from entrypoint.world.model import PORT, PORTS

if TYPE_CHECKING:
    from entrypoint.world.model import World

# Seconds that ranks wait for each other: an image may have to be fetched first. Seconds for a stranger who says
# nothing, and between two tries.
WAIT, TURN, PAUSE = 900.0, 5.0, 0.3
YES, NO = "yes", "no"
# More than a line of ours has.
LONGEST = 1 << 16


def choose_port(world: World) -> int:
    """Return the port on which the ranks of a job agree: another one than that on which they train."""
    return PORTS[(world.port or PORT) % len(PORTS)]


def agree(world: World, offer: str, accepts: Callable[[str], bool], wait: float = WAIT) -> str:
    """Return what rank 0 has offered if all ranks accept it, else an empty text; the same on all of them.

    offer: a line, which counts on rank 0 alone; empty where it has nothing to offer. Raise Refusal where not all ranks
    come in time.
    """
    end = time.monotonic() + wait
    size, port = world.sizes[1], choose_port(world)
    if world.rank:
        return follow((world.master or "", port), f"{size} {world.rank}", accepts, end)
    return lead(size, port, offer, end)


def lead(size: int, port: int, offer: str, end: float) -> str:
    """Make the offer to all other ranks, and return it if they all accept."""
    ranks: dict[int, socket.socket] = {}
    try:
        with listen(port, end) as server:
            while count_callers(ranks) < size - 1:
                admit(server, size, ranks, end)
        for each in ranks.values():
            each.settimeout(TURN)
            send(each, offer)
        answers = {rank: receive(each, end) for rank, each in ranks.items()} if offer else {}
        agreed = all(answer == YES for answer in answers.values())
        for each in ranks.values() if offer else ():
            send(each, YES if agreed else NO)
    except OSError as error:
        missing = sorted({*range(1, size)} - ranks.keys())
        raise explain_missing(f"rank {missing[0]} has not come" if missing else f"a rank has left: {error}") from None
    finally:
        for each in ranks.values():
            each.close()
    return offer if agreed else ""


def listen(port: int, end: float) -> socket.socket:
    """Return a socket on which all may call; another job may have the port for a moment."""
    both = socket.has_dualstack_ipv6()
    while True:
        try:
            family = socket.AF_INET6 if both else socket.AF_INET
            return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(PAUSE)


def admit(server: socket.socket, size: int, ranks: dict[int, socket.socket], end: float) -> None:
    """Let the next caller in, if it is a rank of this world; one that calls again takes the place of its first call."""
    server.settimeout(max(end - time.monotonic(), 0.01))
    caller, _ = server.accept()
    try:
        asked, rank = map(int, receive(caller, time.monotonic() + TURN).split())
    except (OSError, ValueError):
        asked, rank = 0, 0
    if asked != size or not 0 < rank < size:
        caller.close()
        return
    if rank in ranks:
        ranks[rank].close()
    ranks[rank] = caller


def count_callers(ranks: dict[int, socket.socket]) -> int:
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


def follow(address: tuple[str, int], name: str, accepts: Callable[[str], bool], end: float) -> str:
    """Call rank 0 until it answers, say whether we accept its offer, and return that if all do."""
    while True:
        try:
            with socket.create_connection(address, TURN) as caller:
                send(caller, name)
                offer = receive(caller, end)
                if not offer:
                    return ""
                send(caller, YES if accepts(offer) else NO)
                return offer if receive(caller, end) == YES else ""
        except OSError as error:
            if time.monotonic() > end:
                raise explain_missing(f"rank 0 does not answer at {address[0]}:{address[1]}: {error}") from None
        time.sleep(PAUSE)


def send(to: socket.socket, line: str) -> None:
    """Send a line."""
    to.sendall(f"{line}\n".encode())


def receive(caller: socket.socket, end: float) -> str:
    """Return the next line; raise OSError where the other end has left, or says nothing in time."""
    found = b""
    while not found.endswith(b"\n"):
        caller.settimeout(max(end - time.monotonic(), 0.01))
        part = caller.recv(LONGEST)
        if not part or len(found) > LONGEST:
            raise ConnectionError("the connection was closed")
        found += part
    return found.decode(errors="replace").strip()


def explain_missing(value: str) -> Refusal:
    """Return the error of ranks that have not all met."""
    remedy = "start all ranks again; if the network between the nodes blocks ports, open those from 20000 to 29000"
    return Refusal("the ranks did not agree on where the training goes on", value, remedy, LATER)
