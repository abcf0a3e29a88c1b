"""Hosts that are this machine whoever asks."""

from __future__ import annotations

import pytest

from entrypoint.addresses import is_loopback, read_ipv6


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.0.1.1", True),
        ("::1", True),
        ("LocalHost", True),
        ("localhost.localdomain", True),
        ("localhost6", True),
        ("ip6-localhost", True),
        ("ip6-loopback", True),
        ("0:0:0:0:0:0:0:1", True),
        ("::0001", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("::FFFF:7f00:1", True),
        ("::ffff:10.0.0.1", False),
        ("fd77::1", False),
        ("fe80::1%eth0", False),
        ("node0:29500", False),
        ("::1:\0", False),
        ("\udcff:", False),
        ("localhost.example.com", False),
        ("10.0.0.127", False),
        ("::", False),
        ("node0", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_by_whatever_name(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("text", "found"),
    [("::2", "2"), ("fe80::1%eth0", f"fe80{1:028x}"), ("::1:80:x", ""), ("10.0.0.1", ""), ("node0:80", ""), ("", "")],
)
def test_an_address_of_ipv6_is_read(text: str, found: str) -> None:
    assert read_ipv6(text).hex() == found.rjust(32, "0") * bool(found)
