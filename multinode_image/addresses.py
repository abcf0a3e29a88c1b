"""Hosts and ports in text that others wrote."""

from __future__ import annotations

import socket

from multinode_image.errors import Refusal
from multinode_image.numbers import LAST_PORT, whole

# Names of this machine. They are those that distributions write into /etc/hosts.
NAMES = ("localhost", "localhost.localdomain", "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback")
# Addresses to listen at; whoever connects to one of them reaches this machine itself.
ANYWHERE = ("0.0.0.0", "::")
# ::1, and how ::ffff:127.0.0.1 begins, which is loopback of IPv4 written as IPv6.
ONE, MAPPED = bytes(15) + b"\x01", bytes(10) + b"\xff\xff\x7f"
# Where rank 0 listens if nobody says otherwise, as torchrun's.
PORT = 29500


def is_loopback(host: str) -> bool:
    """Return whether a name or an address can only mean the machine it is used on."""
    return host.lower() in NAMES or host.startswith("127.") or read_ipv6(host).startswith((ONE, MAPPED))


def read_ipv6(text: str) -> bytes:
    """Return the bytes of an address of IPv6, which may have a zone; none of what is no such address."""
    if ":" not in text:
        return b""
    try:
        return socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    except (OSError, ValueError):  # a name with a port, or bytes that are no text
        return b""


def unbracket(host: str) -> str:
    """Return an address of IPv6 without the brackets that URLs need."""
    return host.strip().strip("[]")


def can_be_host(text: str) -> bool:
    """Return whether a text may be a name, an address, or nothing; Docker's names have underscores."""
    return bool(read_ipv6(text)) or all(letter.isalnum() or letter in "-._" for letter in text)


def read_host(text: str, name: str) -> str:
    """Return the host of a variable; raise Refusal for what is none, and would be waited for in vain."""
    host = unbracket(text)
    if not can_be_host(host):
        port = f"; a port belongs in {name[:-4]}PORT" if name.endswith("_ADDR") else ", and without a port"
        remedy = f"export {name}=HOST without quotes and blanks{port}"
        raise Refusal(f"{name} is neither a name nor an address", repr(text), remedy)
    return host


def read_port(text: str, remedy: str = f"export MASTER_PORT={PORT}") -> int | None:
    """Return the port of the master, None if the text is empty. Raise Refusal for no port: torchrun would wait at 0."""
    if not text.strip():
        return None
    port = whole(text)
    if not port or port > LAST_PORT:
        raise Refusal("the master's port is not a number from 1 to 65535", repr(text.strip()), remedy)
    return port
