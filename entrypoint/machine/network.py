"""The network: which interface leads to the master, and what is known of names, addresses and ports."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Tuple

from entrypoint.addresses import ANYWHERE, is_loopback
from entrypoint.machine.files import read_text
from entrypoint.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

# A name server that does not answer must not keep a job from starting.
SECONDS = 3.0
# Longer than a resolver asks two servers twice (resolv.conf(5), timeout and attempts).
PATIENCE = 30.0
FAMILIES = (socket.AF_INET, socket.AF_INET6)
# Every interface has these: link-local and multicast addresses of IPv6.
EVERYWHERE = ("fe8", "ff0")
# Addresses that nobody has (RFC 5737, RFC 3849): the way to them is the default route.
SOMEWHERE = ("192.0.2.1", "2001:db8::1")
DISCARD = 9

# A family, and an address as a socket takes it.
Place = Tuple[int, Tuple[Any, ...]]


class Route(NamedTuple):
    """One row of a routing table: the first `length` bits of an address lead to an interface."""

    interface: str
    network: bytes
    length: int
    metric: int


def read_routes(text: str | None, text6: str | None) -> list[Route]:
    """Return the rows of both tables, without those that are not in use, refuse, or lead back to this node."""
    rows = [read_row(line.split()) for line in (text or "").splitlines()[1:]]
    rows += [read_row6(line.split()) for line in (text6 or "").splitlines()]
    return [route for route in rows if route is not None and route.interface != "lo"]


def read_row(words: list[str]) -> Route | None:
    """Return the route in `eth0 000200C0 00000000 0001 0 0 0 00FFFFFF ...`: little-endian words."""
    if len(words) < 8 or not is_up(words[3]):
        return None
    network, mask = read_hex(words[1], 4), read_hex(words[7], 4)
    if network is None or mask is None:
        return None
    length = bin(int.from_bytes(mask, "big")).count("1")
    return Route(words[0], network[::-1], length, whole(words[6]) or 0)


def read_row6(words: list[str]) -> Route | None:
    """Return the route in `fd00... 40 0000... 00 0000... 00000100 00000001 00000000 00000001 eth0`: big-endian."""
    if len(words) < 10 or not is_up(words[8]) or words[0].lower().startswith(EVERYWHERE):
        return None
    network, length, metric = read_hex(words[0], 16), read_hex(words[1], 1), read_hex(words[5], 4)
    if network is None or length is None or metric is None or length[0] > 128:
        return None
    return Route(words[9], network, length[0], int.from_bytes(metric, "big"))


def is_up(flags: str) -> bool:
    """Return whether a route is in use and not a refusal (RTF_UP 1, RTF_REJECT 0x200)."""
    value = read_hex(flags.rjust(8, "0"), 4)
    return value is not None and int.from_bytes(value, "big") & 0x201 == 1


def read_hex(text: str, count: int) -> bytes | None:
    """Return the bytes of hexadecimal digits, two for each; None if the text is anything else."""
    digits = "0123456789abcdefABCDEF"
    return bytes.fromhex(text) if len(text) == 2 * count and all(letter in digits for letter in text) else None


def choose_interface(routes: list[Route], master: str | None) -> str | None:
    """Return the interface that leads to the master, whose name is resolved only if there is a choice."""
    zone = (master or "").partition("%")[2]
    names = {route.interface for route in routes}
    if zone or len(names) < 2:
        return zone or next(iter(names), None)
    addresses = resolve(master) if master else []
    return next((name for name in (match_route(routes, address) for address in (*addresses, None)) if name), None)


def find_interface_to(host: str | None) -> str | None:
    """Return the interface of this machine that leads to a host."""
    return choose_interface(read_routes(read_text("/proc/net/route"), read_text("/proc/net/ipv6_route")), host)


def match_route(routes: list[Route], address: bytes | None) -> str | None:
    """Return the interface of the longest matching route, then the lowest metric; without an address the default's."""
    fits = [route for route in routes if (covers(route, address) if address is not None else not route.length)]
    return max(fits, key=lambda route: (route.length, -route.metric)).interface if fits else None


def covers(route: Route, address: bytes) -> bool:
    """Return whether a route leads to an address of its family."""
    rest = 8 * len(address) - route.length
    if len(address) != len(route.network) or rest < 0:
        return False
    return int.from_bytes(address, "big") >> rest == int.from_bytes(route.network, "big") >> rest


def resolve(host: str) -> list[bytes]:
    """Return the addresses of a host, waiting for them at most SECONDS; IPv4 comes first, and loopback is left out."""
    for family in FAMILIES:
        try:
            return keep([(family, host)])
        except (OSError, ValueError):  # a name, or bytes that are no text
            continue
    rows = look_up(host, None, socket.SOCK_STREAM, SECONDS)
    return keep(sorted((family, write_address(place)) for family, place in rows))


def keep(found: list[tuple[int, str]]) -> list[bytes]:
    """Return addresses as bytes, without those of loopback."""
    return [socket.inet_pton(family, text) for family, text in found if not is_loopback(text)]


def look_up(host: str, port: int | None, kind: int, seconds: float) -> list[Place]:
    """Return the addresses of a host, waiting for a name server some seconds at most; a signal is heeded meanwhile."""
    found: list[Place] = []
    thread = threading.Thread(target=append_addresses, args=(host, port, kind, found), daemon=True)
    thread.start()
    thread.join(seconds)
    return found


def append_addresses(host: str, port: int | None, kind: int, found: list[Place]) -> None:
    """Append the addresses of a host, if it has any."""
    try:
        rows = socket.getaddrinfo(host, port, type=kind)
    except (OSError, UnicodeError, ValueError):
        return
    found.extend((family, place) for family, _, _, _, place in rows if family in FAMILIES)


def is_here(host: str) -> bool:
    """Return whether a name is this machine's: a connection to it comes from the same address, or from loopback.

    Nothing is sent. That an address can be bound says less: with ip_nonlocal_bind, as keepalived sets it, all can be.
    """
    address, own = find_both_ends(host)
    return bool(address) and (address == own or address in ANYWHERE or is_loopback(address))


def has_only_ipv6(host: str) -> bool:
    """Return whether a name has addresses, and none of IPv4."""
    return {family for family, _ in look_up(host, DISCARD, socket.SOCK_DGRAM, SECONDS)} == {socket.AF_INET6}


def own_address(host: str | None) -> str | None:
    """Return the address by which others on the way to a host reach this machine; None if there is only loopback.

    Where the host is this machine under a name on loopback, as Debian writes its own name into /etc/hosts, or is not
    known, it is the address on the default route.
    """
    for target in (host, *SOMEWHERE):
        own = find_both_ends(target)[1] if target else ""
        if own and not is_loopback(own):
            return own
    return None


def find_both_ends(host: str) -> tuple[str, str]:
    """Return the address of a host, and ours on the way there; empty if there is none. Nothing is sent."""
    places = look_up(host, DISCARD, socket.SOCK_DGRAM, SECONDS)
    return find_way(places[0]) if places else ("", "")


def find_way(to: Place) -> tuple[str, str]:
    """Return an address, and ours on the way there; empty if no way leads there. Nothing is sent."""
    family, place = to
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)
            return write_address(place), write_address(probe.getsockname())
    except OSError:
        return "", ""


def split_addresses(host: str) -> tuple[list[str], list[str]]:
    """Return the addresses of a name that this machine has, and those that another one has.

    One on loopback is left out, and so is one to which no way leads: it may be this machine's in a family that is off.
    """
    ways = dict(find_way(place) for place in look_up(host, DISCARD, socket.SOCK_DGRAM, SECONDS))
    ways = {address: own for address, own in ways.items() if address and not is_loopback(address)}
    return [each for each in ways if each == ways[each]], [each for each in ways if each != ways[each]]


def write_address(place: tuple[object, ...]) -> str:
    """Return the address in what a socket has as one, without the zone of IPv6."""
    return str(place[0]).partition("%")[0]


def address_of(host: str, peer: str) -> str:
    """Return a host's address, so that all ranks use the same; the name itself where there is none.

    The peer reaches this machine by the address on the way there: its own name may be on loopback, as Debian writes it
    into /etc/hosts, or on another network, as an engine does for a container on several.
    """
    found = look_up(host, None, socket.SOCK_STREAM, SECONDS)
    address = next((write_address(place) for family, place in found if family == socket.AF_INET), host)
    return (own_address(peer) or host) if is_loopback(address) or is_here(host) else address


def can_resolve(name: str) -> bool:
    """Return whether a name resolves, asked once."""
    return bool(look_up(name, None, socket.SOCK_STREAM, PATIENCE))


def try_port(port: int) -> OSError | None:
    """Return why a port cannot be bound on all interfaces, as the store of torch and sshd do it; None if it can."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error
    return None


def is_free(port: int) -> bool:
    """Return whether a port can be bound."""
    return try_port(port) is None


def find_free_port(ports: Sequence[int], first: int) -> int | None:
    """Return a port that is free on this machine, from one of them on; None if none of the next hundred is."""
    tried = (ports[(first + step) % len(ports)] for step in range(min(100, len(ports))))
    return next((port for port in tried if is_free(port)), None)
