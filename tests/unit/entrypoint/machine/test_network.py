"""Routing tables, and the interface that leads to a master."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.machine import network
from entrypoint.machine.network import (
    can_resolve,
    choose_interface,
    find_both_ends,
    find_free_port,
    has_only_ipv6,
    is_free,
    is_here,
    match_route,
    own_address,
    read_routes,
    resolve,
    split_addresses,
)
from entrypoint.world.model import PORTS

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
ETH0 = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
LAN = "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
DOCKER = "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
BRIDGE = "br-19ca043e9aa4\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
FABRIC = "ib0\t0000A8C0\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0\n"
SECOND = "eth1\t00000000\t010300C0\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
DOWN = "eth9\t000200C0\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
REFUSED = "eth9\t080200C0\t00000000\t0201\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n"
V4 = HEAD + ETH0 + LAN + DOCKER + BRIDGE + FABRIC + SECOND + DOWN + REFUSED


def row6(network: str, length: int, interface: str, *, metric: str = "00000100", flags: str = "00000001") -> str:
    packed = socket.inet_pton(socket.AF_INET6, network).hex()
    return f"{packed} {length:02x} {'0' * 32} 00 {'0' * 32} {metric} 00000001 00000000 {flags} {interface:>8}\n"


V6 = (
    row6("fd00:1::", 64, "eth0")
    + row6("fd00:2::", 64, "ib0")
    + row6("fe80::", 64, "docker0")
    + row6("ff00::", 8, "veth6dd80b0")
    + row6("fd00:1::7", 128, "lo", flags="80200001")
    + row6("::", 0, "eth0", metric="00000400", flags="00000003")
    + row6("::", 0, "lo", metric="ffffffff", flags="00200200")
)


@pytest.mark.parametrize(
    ("master", "interface"),
    [
        ("192.0.2.9", "eth0"),
        ("192.0.2.8", "eth0"),
        ("172.17.0.3", "docker0"),
        ("192.168.7.7", "ib0"),
        ("8.8.8.8", "eth0"),
        ("fd00:1::9", "eth0"),
        ("fd00:2::9", "ib0"),
        ("2001:db8::1", "eth0"),
        ("fe80::1%ib0", "ib0"),
        ("127.0.0.1", "eth0"),
        ("::1", "eth0"),
        (None, "eth0"),
    ],
)
def test_an_address_has_the_interface_of_its_longest_route(
    monkeypatch: pytest.MonkeyPatch, master: str | None, interface: str
) -> None:
    monkeypatch.setattr(network, "append_addresses", lambda host, *_: pytest.fail(f"looked up {host}"))
    assert choose_interface(read_routes(V4, V6), master) == interface


@pytest.mark.parametrize(
    ("addresses", "interface"),
    [
        ([("fd00:2::9", socket.AF_INET6), ("192.0.2.9", socket.AF_INET)], "eth0"),
        ([("fd00:2::9", socket.AF_INET6)], "ib0"),
        ([("127.0.1.1", socket.AF_INET), ("192.168.7.7", socket.AF_INET)], "ib0"),
        ([("127.0.1.1", socket.AF_INET)], "eth0"),
        ([], "eth0"),
    ],
)
def test_interface_of_a_name(monkeypatch: pytest.MonkeyPatch, addresses: list[tuple[str, int]], interface: str) -> None:
    def answer(host: str, port: None, **_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if not addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return [(family, 1, 6, "", (text, 0)) for text, family in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert choose_interface(read_routes(V4, V6), "job-master-0") == interface


def test_one_interface_needs_no_append_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "resolve", lambda host: pytest.fail(f"looked up {host}"))
    assert choose_interface(read_routes(HEAD + ETH0, row6("fe80::", 64, "docker0")), "nowhere") == "eth0"
    assert choose_interface(read_routes(None, row6("fd00:1::", 64, "eth0")), "nowhere") == "eth0"
    assert choose_interface([], "nowhere") is None


@pytest.fixture
def given_up() -> Iterator[threading.Event]:
    """Lend what is set when a test has ended."""
    event = threading.Event()
    yield event
    event.set()


def test_a_name_server_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, given_up: threading.Event
) -> None:
    monkeypatch.setattr(network, "SECONDS", 0.01)

    def answer_late(host: str, port: int | None, kind: int, found: list[network.Place]) -> None:
        given_up.wait(60)
        found.append((socket.AF_INET, ("127.0.0.1", 9)))

    monkeypatch.setattr(network, "append_addresses", answer_late)
    assert resolve("nowhere") == []
    assert find_both_ends("nowhere") == ("", "")
    monkeypatch.setattr(network, "PATIENCE", 0.01)
    assert not can_resolve("nowhere")


@given(st.text(), st.text(), st.sampled_from([None, b"\1\2\3\4", bytes(16)]))
def test_any_table_is_read(text: str, text6: str, address: bytes | None) -> None:
    match_route(read_routes(HEAD + text, text6), address)


@given(st.lists(st.sampled_from([*"0123456789abcdef gF", "eth0", "0001", "ffffffff"]), max_size=60))
def test_any_row_is_read(words: list[str]) -> None:
    text = "".join(words)
    match_route(read_routes(f"{HEAD}{text}", text), bytes(4))


def test_a_master_that_is_no_text_has_no_address() -> None:
    assert resolve("\udc80") == []


def test_no_answer_where_no_route_leads() -> None:
    assert match_route(read_routes(HEAD + LAN, ""), b"\x08\x08\x08\x08") is None


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


class Probe:
    """A socket whose route leads through 10.77.0.2, for any address but its own and loopback's."""

    def __init__(self, *_: object) -> None:
        self.place: tuple[str, int] = ("", 0)

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def bind(self, place: tuple[str, int]) -> None:
        """Bind any address, as with ip_nonlocal_bind."""

    def connect(self, place: tuple[str, int]) -> None:
        self.place = place

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1" if self.place[0].startswith("127.") else "10.77.0.2", 40000)


@pytest.mark.parametrize(
    ("address", "here", "own"),
    [
        ("10.77.0.1", False, "10.77.0.2"),
        ("10.77.0.2", True, "10.77.0.2"),
        ("127.0.1.1", True, "10.77.0.2"),
        ("0.0.0.0", True, "10.77.0.2"),
    ],
)
def test_an_address_is_here_if_the_way_to_it_begins_there(
    monkeypatch: pytest.MonkeyPatch, address: str, here: bool, own: str
) -> None:
    monkeypatch.setattr(socket, "socket", Probe)
    assert (is_here(address), own_address(address)) == (here, own)


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
        own = address if address in ("10.77.0.2", "10.78.0.2", "fd00::2", "127.0.1.1") else "10.77.0.2"
        return ("", "") if address == "fd99::1" else (address, own)

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


def test_a_machine_with_loopback_alone_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "find_both_ends", lambda host: ("", ""))
    assert own_address("10.77.0.1") is None


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "is_free", lambda port: port not in (28, 29, 20))
    assert find_free_port(range(20, 30), 8) == 21
    monkeypatch.setattr(network, "is_free", lambda port: False)
    assert find_free_port(range(20, 30), 8) is None


@pytest.mark.parametrize(
    ("found", "here", "address"),
    [
        ([(socket.AF_INET6, "fd00::2"), (socket.AF_INET, "10.77.0.2")], False, "10.77.0.2"),
        ([(socket.AF_INET, "127.0.1.1"), (socket.AF_INET, "192.0.2.2")], True, "10.77.0.1"),
        ([(socket.AF_INET, "172.31.0.2"), (socket.AF_INET, "10.77.0.1")], True, "10.77.0.1"),  # two networks
        ([(socket.AF_INET6, "fd00::2")], False, "node0"),
        ([], False, "node0"),
    ],
)
def test_all_ranks_get_one_address(
    monkeypatch: pytest.MonkeyPatch, found: list[tuple[int, str]], here: bool, address: str
) -> None:
    rows: list[network.Place] = [(family, (text, 0)) for family, text in found]
    monkeypatch.setattr(network, "look_up", lambda *_: rows)
    monkeypatch.setattr(network, "is_here", lambda host: here)
    monkeypatch.setattr(network, "own_address", lambda host: "10.77.0.1" if host == "node1" else None)
    assert network.address_of("node0", "node1") == address


def test_a_name_on_loopback_without_any_network_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "look_up", lambda *_: [(socket.AF_INET, ("127.0.1.1", 0))])
    monkeypatch.setattr(network, "own_address", lambda host: None)
    assert network.address_of("node0", "node1") == "node0"
