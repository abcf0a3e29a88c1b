"""Names, addresses and ports, and the interface that leads to a master."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image import timeouts
from multinode_image.machine import network
from multinode_image.machine.network import (
    can_resolve,
    find_both_ends,
    find_free_port,
    find_interface,
    has_only_ipv6,
    has_several_networks,
    is_here,
    list_ipv6,
    split_addresses,
)


@pytest.mark.parametrize(
    ("host", "ways", "interface"),
    [
        ("node0", {"node0": "10.77.0.2"}, "eth0"),
        ("node0", {"node0": "192.168.7.2"}, "ib0"),
        ("node0", {"node0": "fd00:2::2"}, "ib0"),
        ("node0", {"node0": "10.77.0.9"}, "eth0"),  # a second address of it
        ("fe80::1%ib0", {}, "ib0"),
        ("node0", {"node0": "127.0.1.1", "192.0.2.1": "10.77.0.2"}, "eth0"),  # this node
        (None, {"192.0.2.1": "192.168.7.2"}, "ib0"),
        ("nowhere", {"2001:db8::1": "fd00:2::2"}, "ib0"),
        ("node0", {"node0": "10.99.0.1"}, None),  # of loopback, as routers of a host have it
        ("nowhere", {}, None),
    ],
)
def test_the_interface_on_the_way_to_a_master(
    monkeypatch: pytest.MonkeyPatch, host: str | None, ways: dict[str, str], interface: str | None
) -> None:
    four = [
        ("lo", "127.0.0.1"),
        ("lo", "10.99.0.1"),
        ("eth0", "10.77.0.2"),
        ("eth0", "10.77.0.9"),
        ("ib0", "192.168.7.2"),
    ]
    six = f"{1:032x} 01 80 10 80 lo\nfd000002{2:024x} 02 40 00 80 ib0\nno row\n"
    monkeypatch.setattr(network, "find_both_ends", lambda name: ("", ways.get(name, "")))
    monkeypatch.setattr(network, "list_ipv4", lambda: four)
    monkeypatch.setattr(network, "read_text", {"/proc/net/if_inet6": six}.get)
    assert find_interface(host) == interface


def test_the_kernel_lists_addresses_by_their_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As struct ifconf and struct ifreq have them (netdevice(7)); another address of an interface has a label."""
    rows = [("lo", "127.0.0.1"), ("eth0", "10.77.0.2"), ("eth0:backup", "10.77.0.9")]
    packed = b"".join(struct.pack("16s4x4s16x", name.encode(), socket.inet_aton(address)) for name, address in rows)

    def fill(_: object, request: int, asked: bytes) -> bytes:
        size, place = struct.unpack("iP", asked)
        assert request == 0x8912 and size >= len(packed)
        ctypes.memmove(place, packed, len(packed))
        return struct.pack("iP", len(packed), place)

    monkeypatch.setattr("fcntl.ioctl", fill)

    assert [*network.list_ipv4()] == [("lo", "127.0.0.1"), ("eth0", "10.77.0.2"), ("eth0", "10.77.0.9")]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> mock.MagicMock:
    """Return a socket, which reaches nothing."""
    probe = mock.MagicMock()
    probe.__enter__.return_value = probe
    monkeypatch.setattr(socket, "socket", mock.Mock(return_value=probe))
    return probe


def test_the_way_to_an_address_is_asked_without_sending_anything(probe: mock.MagicMock) -> None:
    place = ("fe80::1%eth0", 9, 0, 3)
    probe.getsockname.return_value = ("fe80::2%eth0", 1, 0, 3)

    assert network.find_way((socket.AF_INET6, place)) == ("fe80::1", "fe80::2")
    assert (socket.socket.call_args, probe.connect.call_args) == (  # type: ignore[attr-defined]
        mock.call(socket.AF_INET6, socket.SOCK_DGRAM), mock.call(place),
    )  # fmt: skip
    probe.connect.side_effect = OSError
    assert network.find_way((socket.AF_INET6, place)) == ("", "")


@pytest.mark.parametrize("error", [None, PermissionError(13, "Permission denied")])
def test_a_port_is_tried_on_all_interfaces(probe: mock.MagicMock, error: OSError | None) -> None:
    """One that a program had a moment ago can be had again."""
    probe.bind.side_effect = error

    assert network.try_port(80) is error
    assert (probe.setsockopt.call_args, probe.bind.call_args) == (
        mock.call(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1), mock.call(("", 80)),
    )  # fmt: skip


@given(st.text(st.sampled_from("0123456789abcdef \neth")))
def test_any_list_of_addresses_is_read(text: str) -> None:
    assert all(name and address for name, address in list_ipv6(text))


@pytest.fixture
def given_up() -> Iterator[threading.Event]:
    """Lend what is set when a test has ended."""
    event = threading.Event()
    yield event
    event.set()


def test_a_name_server_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, given_up: threading.Event
) -> None:
    assert timeouts.LOOKUP < 5 < timeouts.RESOLVER < 60  # for the first of them every start waits
    monkeypatch.setattr(timeouts, "LOOKUP", 0.01)
    daemons = list[bool]()

    def answer_late(host: str, port: int | None, kind: int, places: list[network.Place]) -> None:
        daemons.append(threading.current_thread().daemon)
        given_up.wait(60)
        places.append((socket.AF_INET, ("127.0.0.1", 9)))

    monkeypatch.setattr(network, "append_addresses", answer_late)
    assert find_both_ends("nowhere") == ("", "")
    monkeypatch.setattr(timeouts, "RESOLVER", 0.01)
    assert not can_resolve("nowhere")
    assert daemons == [True, True], "nor at the end of Python"


@pytest.mark.parametrize(
    ("ends", "here"),
    [
        (("10.77.0.2", "10.77.0.2"), True),
        (("10.77.0.3", "10.77.0.2"), False),
        (("127.0.1.1", "127.0.0.1"), True),
        (("0.0.0.0", "127.0.0.1"), True),
        (("fd00::3", "fd00::2"), False),
        (("", ""), False),  # a name that has no address
    ],
)
def test_a_host_is_this_machine_where_both_ends_are(
    ends: tuple[str, str], here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "find_both_ends", lambda host: ends)
    assert is_here("node0") == here


@pytest.mark.parametrize(
    ("addresses", "here", "elsewhere"),
    [
        (("10.77.0.3", "10.77.0.2"), ["10.77.0.2"], ["10.77.0.3"]),
        (("10.77.0.2", "10.78.0.2", "fd00::2"), ["10.77.0.2", "10.78.0.2", "fd00::2"], []),  # two networks and IPv6
        (("10.77.0.2", "127.0.1.1", "10.77.0.2"), ["10.77.0.2"], []),
        (("10.77.0.2", "fd99::1"), ["10.77.0.2"], []),  # no way leads there
        (("10.77.0.3", "10.77.0.4"), [], ["10.77.0.3", "10.77.0.4"]),
        ((), [], []),
    ],
)
def test_addresses_of_a_name_are_told_apart(
    addresses: tuple[str, ...], here: list[str], elsewhere: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_way(to: network.Place) -> tuple[str, str]:
        address = str(to[1][0])
        local = address if address in ("10.77.0.2", "10.78.0.2", "fd00::2", "127.0.1.1") else "10.77.0.2"
        return ("", "") if address == "fd99::1" else (address, local)

    monkeypatch.setattr(network, "look_up", lambda *_: [(socket.AF_INET, (text, 9)) for text in addresses])
    monkeypatch.setattr(network, "find_way", find_way)
    assert split_addresses("pod") == (here, elsewhere)


@pytest.mark.parametrize(
    ("addresses", "only"),
    [
        ([(socket.AF_INET6, "fd77::1")], True),
        ([(socket.AF_INET6, "fd77::1"), (socket.AF_INET, "10.77.0.1")], False),
        ([(socket.AF_INET, "10.77.0.1")], False),
        ([], False),
    ],
)
def test_a_name_without_an_address_of_ipv4(
    addresses: list[tuple[int, str]], only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "look_up", lambda *_: [(family, (text, 9)) for family, text in addresses])
    assert has_only_ipv6("node1") == only


@pytest.mark.parametrize(
    ("rows", "several"),
    [
        ([("lo", "127.0.0.1"), ("eth0", "10.77.0.1")], False),
        ([("eth0", "10.77.0.1"), ("eth0", "10.77.0.9")], False),
        ([("lo", "127.0.0.1"), ("eth0", "10.77.0.1"), ("net1", "10.78.0.1")], True),
        ([], False),
    ],
)
def test_networks_are_counted_by_interfaces(
    rows: list[tuple[str, str]], several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "list_ipv4", lambda: iter(rows))
    assert has_several_networks() == several


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "is_free", lambda port: port not in (28, 29, 20))
    assert find_free_port(range(20, 30), 8) == 21
    monkeypatch.setattr(network, "is_free", lambda port: False)
    assert find_free_port(range(20, 30), 8) is None


@pytest.mark.parametrize(
    ("offers", "here", "address"),
    [
        ([(socket.AF_INET6, "fd00::2"), (socket.AF_INET, "10.77.0.2")], False, "10.77.0.2"),
        ([(socket.AF_INET, "127.0.1.1"), (socket.AF_INET, "192.0.2.2")], True, "10.77.0.1"),
        ([(socket.AF_INET, "172.31.0.2"), (socket.AF_INET, "10.77.0.1")], True, "10.77.0.1"),  # two networks
        ([(socket.AF_INET6, "fd00::2")], False, "node0"),
        ([], False, "node0"),
    ],
)
def test_all_ranks_get_one_address(
    monkeypatch: pytest.MonkeyPatch, offers: list[tuple[int, str]], here: bool, address: str
) -> None:
    rows: list[network.Place] = [(family, (text, 0)) for family, text in offers]
    monkeypatch.setattr(network, "look_up", lambda *_: rows)
    monkeypatch.setattr(network, "is_here", lambda host: here)
    monkeypatch.setattr(network, "find_local_address", lambda host: "10.77.0.1" if host == "node1" else None)
    assert network.address_of("node0", "node1") == address


def test_a_name_on_loopback_without_any_network_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "look_up", lambda *_: [(socket.AF_INET, ("127.0.1.1", 0))])
    monkeypatch.setattr(network, "find_local_address", lambda host: None)
    assert network.address_of("node0", "node1") == "node0"
