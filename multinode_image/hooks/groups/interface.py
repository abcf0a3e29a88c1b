"""On a master with several networks, take the one by which the others have come.

A start asks the kernel for the way to the master. On the master itself that is the network of the first address of its
name, which no other node may have (Multus, `docker network connect`): rank 0 gave that address to the others, which
could not reach it. When a group forms, the others are connected to the store of the job, and the kernel knows at which
address of this node. What the user has set is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from multinode_image.settings import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableMapping

# What we set for several nodes.
NAMES = ("GLOO_SOCKET_IFNAME", "FI_TCP_IFACE", "CCL_KVS_IFACE")
NET = Path("/proc/net")
ESTABLISHED, LISTENS = "01", "0A"  # include/net/tcp_states.h
SIOCGIFADDR = 0x8915
SECONDS, PAUSE = 60.0, 0.1  # for the first node that comes, where there are several networks


class Socket(NamedTuple):
    """A socket of TCP: both addresses, both ports, and its state."""

    local: str
    peer: str
    port: int
    peer_port: int
    state: str


def watch_rendezvous(module: Any) -> None:
    """Look at the network when a group has met, before it exchanges addresses; module: distributed_c10d."""
    meet = module.rendezvous

    @functools.wraps(meet)
    def meet_and_look(*words: Any, **options: Any) -> Iterator[Any]:
        for met in meet(*words, **options):
            with contextlib.suppress(Exception):  # the interface stays as it was
                choose(os.environ, list_interfaces)
            yield met

    module.rendezvous = meet_and_look


def choose(environ: MutableMapping[str, str], interfaces: Callable[[], Mapping[str, str]]) -> None:
    """Set the variables that name an interface to the one that others have reached; interfaces: address -> name."""
    ours = [name for name in NAMES if f"{name}={environ.get(name)}" in environ.get(MARK, "").split(";")]
    port = environ.get("MASTER_PORT", "")
    if NAMES[0] not in ours or environ.get("GROUP_WORLD_SIZE") == "1" or not port.isdecimal():
        return
    known = interfaces()
    if len({name for name in known.values() if name != "lo"}) < 2:
        return
    reached = {known[address] for address in find_ends(int(port)) if address in known}
    if reached and environ[NAMES[0]] not in reached:
        name = sorted(reached)[0]
        say(f"ranks have met on {name}, which is taken here; the name of the master leads to {environ[NAMES[0]]}")
        environ.update(dict.fromkeys(ours, name))


def say(text: str) -> None:
    """Print a line."""
    print(f"multinode: {text}", file=sys.stderr, flush=True)


def find_ends(port: int, wait: Callable[[float], None] = time.sleep) -> set[str]:
    """Return the addresses of this node by which it and others are connected to the store of a job, at this port.

    The node that has the store waits for the first of the others.
    """
    until = time.monotonic() + SECONDS
    while True:
        sockets = [entry for entry in list_sockets() if port in (entry.port, entry.peer_port)]
        ends = {entry.local for entry in sockets if entry.state == ESTABLISHED and entry.local != entry.peer}
        serves = any(entry.state == LISTENS and entry.port == port for entry in sockets)
        if ends or not serves or time.monotonic() > until:
            return ends
        wait(PAUSE)


def list_sockets() -> Iterator[Socket]:
    """Yield the sockets of TCP here (proc(5), /proc/net/tcp)."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), (NET / name).open() as file:
            for row in file.readlines()[1:]:
                _, local, peer, state = row.split()[:4]
                here, there = (int(address.rpartition(":")[2], 16) for address in (local, peer))
                yield Socket(read_address(local), read_address(peer), here, there, state)


def read_address(text: str) -> str:
    """Return an address of /proc/net/tcp, whose words have the order of bytes of this machine; of IPv6 also IPv4's."""
    digits = text.partition(":")[0]
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, packed).removeprefix("::ffff:")


def list_interfaces() -> dict[str, str]:
    """Return the interface of each address of this node."""
    known = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has none of IPv4
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                known[socket.inet_ntoa(answer[20:24])] = name
    with contextlib.suppress(OSError), (NET / "if_inet6").open() as file:
        for row in file:
            words = row.split()
            known[socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0]))] = words[5]
    return known
