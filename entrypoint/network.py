"""Which network interface leads to the master, from the text of /proc/net/route."""

from __future__ import annotations

import socket
import threading
from typing import NamedTuple

from .numbers import whole

# A name server that does not answer must not keep a job from starting.
SECONDS = 3.0


class Route(NamedTuple):
    """One row of the routing table, addresses as numbers."""

    interface: str
    network: int
    mask: int
    metric: int


def read_routes(text: str | None) -> list[Route]:
    """Read /proc/net/route, whose addresses are hexadecimal in the byte order of the machine (little-endian)."""
    routes = []
    for line in (text or "").splitlines()[1:]:
        words = line.split()
        if len(words) < 8 or not is_up(words[3]):
            continue
        network, mask = swap(words[1]), swap(words[7])
        if network is not None and mask is not None:
            routes.append(Route(words[0], network, mask, whole(words[6]) or 0))
    return routes


def is_up(flags: str) -> bool:
    """Tell whether a route is in use and not a refusal (RTF_UP 1, RTF_REJECT 0x200)."""
    value = hexadecimal(flags)
    return value is not None and value & 0x201 == 1


def hexadecimal(text: str) -> int | None:
    """Read a hexadecimal number of at most 32 bits."""
    digits = "0123456789abcdefABCDEF"
    return int(text, 16) if 0 < len(text) <= 8 and all(letter in digits for letter in text) else None


def swap(text: str) -> int | None:
    """Turn the kernel's little-endian word into a number that compares as addresses do."""
    value = hexadecimal(text)
    return None if value is None else int.from_bytes(value.to_bytes(4, "little"), "big")


def find_interface(routes: list[Route], master: str | None) -> str | None:
    """Name the interface for several nodes; the name of the master is looked up only if there is a choice."""
    names = {route.interface for route in routes if route.interface != "lo"}
    if len(names) < 2:
        return next(iter(names), None)
    address = resolve(master) if master else None
    return match(routes, address) or match(routes, None)


def match(routes: list[Route], address: int | None) -> str | None:
    """Choose the longest matching route, then the lowest metric; without an address the default route."""
    fits = [
        route
        for route in routes
        if route.interface != "lo"
        and (address & route.mask == route.network if address is not None else not route.mask)
    ]
    return max(fits, key=lambda route: (route.mask, -route.metric)).interface if fits else None


def resolve(host: str) -> int | None:
    """Look up an IPv4 address, but not for long; None if there is none, or one on loopback."""
    found: list[str] = []
    thread = threading.Thread(target=look_up, args=(host, found), daemon=True)
    thread.start()
    thread.join(SECONDS)
    if not found or found[0].startswith("127."):
        return None
    return int.from_bytes(socket.inet_aton(found[0]), "big")


def look_up(host: str, found: list[str]) -> None:
    """Append the first address of a host, if it has one."""
    try:
        found.append(socket.gethostbyname(host))
    except (OSError, UnicodeError):
        return
