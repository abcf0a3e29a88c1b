"""The network of this machine, as the entrypoint sees it: loopback is always there."""

from __future__ import annotations

import os
import socket

from multinode_image.machine.network import find_free_port, is_free, is_here, list_ipv4
from multinode_image.world.ranks import PORTS


def test_the_kernel_lists_the_addresses_of_this_machine() -> None:
    assert ("lo", "127.0.0.1") in list(list_ipv4())


def test_a_port_that_is_listened_on_is_not_free() -> None:
    """One that Linux gives nobody: another process may get those of port 0 at any time."""
    port = find_free_port(PORTS, os.getpid() % len(PORTS))
    assert port
    with socket.create_server(("", port)):
        assert not is_free(port)
    assert is_free(port)


def has_ipv6() -> bool:
    """Return whether loopback has an address of IPv6: many containers have none."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_this_machine_is_here() -> None:
    hosts = ("localhost", "127.0.0.1", "127.0.1.1", "0.0.0.0", *(["::1"] if has_ipv6() else ()))
    assert all(is_here(host) for host in hosts)
    assert not any(is_here(host) for host in ("203.0.113.9", "nobody.invalid", "", "\udc80", "a" * 70, "a..b"))
