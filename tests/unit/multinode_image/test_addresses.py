"""Hosts that are this machine whoever asks."""

from __future__ import annotations

import pytest

from multinode_image.addresses import is_loopback, read_ipv6, read_port
from multinode_image.errors import Refusal

HERE = ("localhost", "LocalHost", "localhost6", "ip6-loopback", "127.0.1.1", "::1", "0:0:0:0:0:0:0:1", "::1%lo")
MAPPED = ("::ffff:127.0.0.1", "::FFFF:7f00:1")
ELSEWHERE = ("", "node0", "node0:29500", "localhost.example.com", "10.0.0.127", "fd77::1", "::", "::ffff:10.0.0.1")
NO_ADDRESS = ("::1:\0", "\udcff:", "::1:80:x", "10.0.0.1", "node0:80", "")


def test_loopback_is_this_machine_by_whatever_name() -> None:
    assert [host for host in (*HERE, *MAPPED, *ELSEWHERE, *NO_ADDRESS) if is_loopback(host)] == [*HERE, *MAPPED]


@pytest.mark.parametrize(("text", "found"), [("::2", 2), ("fe80::1%eth0", (0xFE80 << 112) + 1)])
def test_an_address_of_ipv6_is_read(text: str, found: int) -> None:
    assert read_ipv6(text) == found.to_bytes(16, "big")
    assert not any(map(read_ipv6, NO_ADDRESS))


@pytest.mark.parametrize(("text", "port"), [("", None), ("1", 1), ("65535", 65535), ("0", Refusal), ("65536", Refusal)])
def test_a_port_is_one_from_1_to_65535(text: str, port: int | type[Refusal] | None) -> None:
    if port is Refusal:
        with pytest.raises(Refusal):
            read_port(text)
    else:
        assert read_port(text) == port
