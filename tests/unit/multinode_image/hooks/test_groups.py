"""Which process gets a place in a group, and by which interface the ranks of one reach each other."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multinode_image.hooks.groups import interface
from multinode_image.hooks.groups.group_of_one import PLACE, find_missing
from multinode_image.hooks.groups.interface import choose, list_interfaces, list_sockets
from multinode_image.settings import SIZE

ALONE = {SIZE: "1"}


@pytest.mark.parametrize(
    ("url", "environ", "lent"),
    [
        ("env://", ALONE, {*PLACE}),
        ("env://?rank=0&world_size=1", ALONE, {*PLACE}),
        ("env://", {**ALONE, "MASTER_ADDR": "localhost", "MASTER_PORT": "12355"}, {"RANK", "WORLD_SIZE"}),
        # others are meant: torch says what it misses
        ("env://?rank=0&world_size=2", ALONE, set()),
        ("env://?rank=1", ALONE, set()),
        ("env://", {**ALONE, "RANK": "0"}, set()),
        ("env://", {**ALONE, "WORLD_SIZE": "2"}, set()),
        ("env://", {SIZE: "2"}, set()),
        ("env://", {SIZE: "1:4"}, set()),
        ("env://", {}, set()),
    ],
)
def test_only_a_process_that_is_alone_gets_a_place(url: str, environ: dict[str, str], lent: set[str]) -> None:
    assert find_missing(url, environ).keys() == lent


KNOWN = {"127.0.0.1": "lo", "172.18.0.2": "eth0", "172.19.0.2": "eth1", "fd00::2": "eth1"}
SET = {
    "GLOO_SOCKET_IFNAME": "eth0",
    "FI_TCP_IFACE": "eth0",
    "MULTINODE_SET": "OMP_NUM_THREADS=2;GLOO_SOCKET_IFNAME=eth0;FI_TCP_IFACE=eth0",
    "MASTER_PORT": "29500",
    "GROUP_WORLD_SIZE": "2",
}
ANY = "0.0.0.0"


def write(address: str, port: int, wide: bool) -> str:
    """Write an address as the kernel does; wide: in the table of IPv6."""
    mapped = f"::ffff:{address}" if wide and ":" not in address else address
    packed = socket.inet_pton(socket.AF_INET6 if wide else socket.AF_INET, mapped)
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed)) + f":{port:04X}"


@pytest.fixture
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what makes up the sockets of this node: own address and port, the peer's, and the state."""
    monkeypatch.setattr(interface, "NET", tmp_path)
    monkeypatch.setattr(interface, "SECONDS", 0.0)

    def make(*rows: tuple[str, int, str, int, str], wide: bool = True) -> None:
        lines = ["  sl  local_address rem_address   st"]
        for number, (local, port, peer, other, state) in enumerate(rows):
            lines.append(f"   {number}: {write(local, port, wide)} {write(peer, other, wide)} {state} 0:0 0")
        (tmp_path / ("tcp6" if wide else "tcp")).write_text("\n".join(lines) + "\n")

    return make


LISTEN, SELF = ("::", 29500, "::", 0, "0A"), ("172.18.0.2", 29500, "172.18.0.2", 40000, "01")
AWAY = ("172.19.0.2", 29500, "172.19.0.3", 41000, "01")


@pytest.mark.parametrize(
    ("rows", "more", "name"),
    [
        pytest.param([LISTEN, SELF, AWAY], {}, "eth1", id="by another network"),
        pytest.param([LISTEN, SELF, ("172.18.0.2", 29500, "172.18.0.3", 5, "01")], {}, "eth0", id="by the same"),
        pytest.param([LISTEN, SELF, AWAY, ("172.18.0.2", 29500, "172.18.0.3", 5, "01")], {}, "eth0", id="by both"),
        pytest.param([LISTEN, ("fd00::2", 29500, "fd00::3", 5, "01")], {}, "eth1", id="by IPv6"),
        pytest.param([LISTEN, SELF], {}, "eth0", id="nobody has come"),
        pytest.param([LISTEN, SELF, (*AWAY[:4], "06")], {}, "eth0", id="who has come has gone"),
        pytest.param([LISTEN, SELF, ("172.19.0.2", 22, "172.19.0.3", 41000, "01")], {}, "eth0", id="another port"),
        pytest.param([("172.19.0.2", 41000, "172.19.0.3", 29500, "01")], {}, "eth1", id="another node has the store"),
        pytest.param([("172.18.0.2", 41000, "172.18.0.3", 29500, "01")], {}, "eth0", id="and is reached by the same"),
        pytest.param([], {}, "eth0", id="nobody knows"),
        pytest.param([LISTEN, SELF, AWAY], {"GROUP_WORLD_SIZE": "1"}, "eth0", id="one node"),
        pytest.param([LISTEN, SELF, AWAY], {"MULTINODE_SET": ""}, "eth0", id="the user's own"),
        pytest.param([LISTEN, SELF, AWAY], {"MULTINODE_SET": "FI_TCP_IFACE=eth0"}, "eth0", id="that of gloo is"),
    ],
)  # fmt: skip
def test_the_master_takes_the_network_by_which_others_come(
    rows: Any, more: dict[str, str], name: str, sockets: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    sockets(*rows)
    environ = {**SET, **more}
    choose(environ, lambda: KNOWN)

    assert (environ["GLOO_SOCKET_IFNAME"], environ["FI_TCP_IFACE"]) == (name, name)
    assert capsys.readouterr().err.startswith("multinode: ranks have met on eth1") == (name == "eth1")


@pytest.mark.parametrize(("first", "waits"), [([LISTEN, SELF], True), ([LISTEN, SELF, AWAY], False), ([], False)])
def test_only_the_node_that_has_the_store_waits_for_the_first_of_the_others(
    first: Any, waits: bool, sockets: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interface, "SECONDS", 60.0)
    sockets(*first)
    waited = list[float]()

    def wait(seconds: float) -> None:
        waited.append(seconds)
        sockets(LISTEN, SELF, AWAY)

    assert interface.find_ends(29500, wait) == ({"172.19.0.2"} if first else set()) and len(waited) == waits


def test_a_node_with_one_network_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "list_sockets", pytest.fail)
    choose({**SET}, lambda: {"127.0.0.1": "lo", "172.18.0.2": "eth0", "fd00::2": "eth0"})


def test_the_table_of_ipv4_is_read_as_well(sockets: Callable[..., None]) -> None:
    sockets((ANY, 29500, ANY, 0, "0A"), AWAY, wide=False)

    assert [*list_sockets()] == [
        (ANY, ANY, 29500, 0, "0A"), ("172.19.0.2", "172.19.0.3", 29500, 41000, "01")
    ]  # fmt: skip


def test_an_interface_is_known_by_each_of_its_addresses(sockets: Callable[..., None]) -> None:
    row = "fd000000000000000000000000000002 05 40 00 80     eth1\n"
    (interface.NET / "if_inet6").write_text(row)

    assert list_interfaces()["fd00::2"] == "eth1"
