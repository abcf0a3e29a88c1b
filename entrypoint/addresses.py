"""Addresses and names of hosts that mean no other machine than the one they are used on."""

from __future__ import annotations

LOOPBACK = ("localhost", "::1")
# Addresses to listen at; whoever connects to one of them reaches this machine itself.
ANYWHERE = ("0.0.0.0", "::")


def is_loopback(host: str) -> bool:
    """Return whether a name or an address can only mean the machine it is used on."""
    return host in LOOPBACK or host.startswith("127.")
