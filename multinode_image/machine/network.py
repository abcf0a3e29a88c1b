"""The network: which interface leads to the master, and what is known of names, addresses and ports."""

from __future__ import annotations

import errno
import fcntl
import re
import socket
import struct
import threading
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Tuple

from multinode_image import timeouts
from multinode_image.machine.files import read_text
from multinode_image.reading import ANYWHERE, is_loopback

FAMILIES = (socket.AF_INET, socket.AF_INET6)
# Addresses that nobody has (RFC 5737, RFC 3849): the way to them is the default route.
SOMEWHERE = ("192.0.2.1", "2001:db8::1")
DISCARD = 9
# What asks the kernel for the addresses of all interfaces, the bytes of a row, and those of as many as anybody has.
SIOCGIFCONF, ROW = 0x8912, 40
MOST = 1000 * ROW

# A family, and an address as a socket takes it.
Place = Tuple[int, Tuple[Any, ...]]


def find_interface(host: str | None) -> str | None:
    """Return the interface on the way to a host, or to anywhere if that is unknown; None if there is only loopback.

    The kernel chooses among the routes: it takes an address of that interface. A zone names it (RFC 4007).
    """
    zone = (host or "").partition("%")[2]
    address = "" if zone else find_local_address(host)
    return zone or (name_interface(address) if address else None)


def name_interface(address: str) -> str | None:
    """Return the interface that has an address; None for loopback, which may have addresses of other hosts."""
    rows = list_ipv6(read_text("/proc/net/if_inet6")) if ":" in address else list_ipv4()
    return next((name for name, other in rows if other == address and name != "lo"), None)


def list_ipv4() -> Iterator[tuple[str, str]]:
    """Yield the interface of each address of IPv4 (netdevice(7), SIOCGIFCONF), without the label of an address."""
    rows = array("B", bytes(MOST))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, SIOCGIFCONF, struct.pack("iP", MOST, rows.buffer_info()[0]))
    for place in range(0, struct.unpack("iP", answer)[0], ROW):
        name = rows[place : place + 16].tobytes().partition(b"\0")[0].decode(errors="replace")
        yield name.partition(":")[0], socket.inet_ntoa(rows[place + 20 : place + 24])


def has_several_networks() -> bool:
    """Return whether this machine has addresses on more than one interface beside loopback."""
    return len({name for name, _ in list_ipv4()} - {"lo"}) > 1


def list_ipv6(text: str | None) -> Iterator[tuple[str, str]]:
    """Yield the interface of each address of IPv6, out of rows like `fd00...01 02 40 00 80 eth0`."""
    for row in (text or "").splitlines():
        words = row.split()
        if len(words) == 6 and re.fullmatch("[0-9a-f]{32}", words[0]):
            yield words[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0]))


def look_up(host: str, port: int | None, kind: int, seconds: float) -> list[Place]:
    """Return the addresses of a host, waiting for a name server some seconds at most; a signal is heeded meanwhile.

    Raise OSError where no thread can be started.
    """
    places: list[Place] = []
    thread = threading.Thread(target=append_addresses, args=(host, port, kind, places), daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from None
    thread.join(seconds)
    return places


def append_addresses(host: str, port: int | None, kind: int, places: list[Place]) -> None:
    """Append the addresses of a host, if it has any."""
    try:
        rows = socket.getaddrinfo(host, port, type=kind)
    except (OSError, UnicodeError, ValueError):
        return
    places.extend((family, place) for family, _, _, _, place in rows if family in FAMILIES)


def is_here(host: str) -> bool:
    """Return whether a name is this machine's: a connection to it comes from the same address, or from loopback.

    Nothing is sent. That an address can be bound says less: with ip_nonlocal_bind, as keepalived sets it, all can be.
    """
    address, source = find_both_ends(host)
    return bool(address) and (address == source or address in ANYWHERE or is_loopback(address))


def has_only_ipv6(host: str) -> bool:
    """Return whether a name has addresses, and none of IPv4."""
    return {family for family, _ in look_up(host, DISCARD, socket.SOCK_DGRAM, timeouts.LOOKUP)} == {socket.AF_INET6}


def find_local_address(host: str | None) -> str | None:
    """Return the address by which others on the way to a host reach this machine; None if there is only loopback.

    Where the host is this machine under a name on loopback, as Debian writes its own name into /etc/hosts, or is not
    known, it is the address on the default route.
    """
    for target in (host, *SOMEWHERE):
        address = find_both_ends(target)[1] if target else ""
        if address and not is_loopback(address):
            return address
    return None


def find_both_ends(host: str) -> tuple[str, str]:
    """Return the address of a host, and ours on the way there; empty if there is none. Nothing is sent."""
    places = look_up(host, DISCARD, socket.SOCK_DGRAM, timeouts.LOOKUP)
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
    ways = dict(find_way(place) for place in look_up(host, DISCARD, socket.SOCK_DGRAM, timeouts.LOOKUP))
    ways = {address: source for address, source in ways.items() if address and not is_loopback(address)}
    here = [address for address, source in ways.items() if address == source]
    return here, [address for address in ways if address not in here]


def write_address(place: tuple[object, ...]) -> str:
    """Return the address in what a socket has as one, without the zone of IPv6."""
    return str(place[0]).partition("%")[0]


def address_of(host: str, peer: str) -> str:
    """Return a host's address, so that all ranks use the same; the name itself where there is none.

    The peer reaches this machine by the address on the way there: its own name may be on loopback, as Debian writes it
    into /etc/hosts, or on another network, as an engine does for a container on several.
    """
    places = look_up(host, None, socket.SOCK_STREAM, timeouts.LOOKUP)
    address = next((write_address(place) for family, place in places if family == socket.AF_INET), host)
    return (find_local_address(peer) or host) if is_loopback(address) or is_here(host) else address


def can_resolve(name: str) -> bool:
    """Return whether a name resolves, asked once."""
    return bool(look_up(name, None, socket.SOCK_STREAM, timeouts.RESOLVER))


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
