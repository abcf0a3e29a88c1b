"""Hosts that are this machine whoever asks."""

from __future__ import annotations

import pytest

from entrypoint.addresses import is_loopback


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.0.1.1", True),
        ("::1", True),
        ("10.0.0.127", False),
        ("::", False),
        ("node0", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_by_whatever_name(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
