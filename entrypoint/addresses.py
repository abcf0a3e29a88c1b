"""Addresses and names of hosts that mean no other machine than the one they are used on."""

from __future__ import annotations

import socket

# The names are those that distributions write into /etc/hosts.
NAMES = ("localhost", "localhost.localdomain", "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback")
# Addresses to listen at; whoever connects to one of them reaches this machine itself.
ANYWHERE = ("0.0.0.0", "::")
# ::1, and how ::ffff:127.0.0.1 begins, which is loopback of IPv4 written as IPv6.
ONE, MAPPED = bytes(15) + b"\x01", bytes(10) + b"\xff\xff\x7f"


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
