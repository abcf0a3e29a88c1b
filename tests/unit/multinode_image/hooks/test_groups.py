"""How ranks form a group: its place, its interface and how long it waits; torch and transformers are made up."""

from __future__ import annotations

import functools
import os
import socket
import struct
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.groups import group_of_one, interface
from multinode_image.hooks.groups.ddp_timeout import watch_arguments, watch_groups
from multinode_image.hooks.groups.group_of_one import PLACE, find_missing
from multinode_image.hooks.groups.interface import choose, list_interfaces, list_sockets, watch_rendezvous
from multinode_image.settings import SIZE

HOUR, OTHER = timedelta(hours=1), timedelta(seconds=7)


class Property(property):
    """A property that older releases keep the value of."""


@pytest.mark.parametrize("kind", [functools.cached_property, Property])
@pytest.mark.parametrize(
    ("words", "options", "given"),
    [
        pytest.param(("gloo",), {"rank": 0}, HOUR, id="none is given"),
        pytest.param(("gloo",), {"timeout": OTHER}, OTHER, id="one is given"),
        pytest.param(("gloo", "env://", OTHER), {}, None, id="one is given by its place"),
    ],
)
def test_a_group_of_a_trainer_waits_as_long_as_was_said(kind: Any, words: Any, options: Any, given: Any) -> None:
    formed: list[Any] = []
    torch = SimpleNamespace(init_process_group=lambda *words, **options: formed.append(options.get("timeout")))
    watch_groups(torch)

    class Arguments:
        ddp_timeout = 3600

        def _setup_devices(self) -> str:
            torch.init_process_group(*words, **options)
            return "cpu"

    _setup_devices = Arguments._setup_devices
    cached: Any = kind(_setup_devices)
    if hasattr(cached, "__set_name__"):
        cached.__set_name__(Arguments, "_setup_devices")
    Arguments._setup_devices = cached  # type: ignore[method-assign]
    watch_arguments(SimpleNamespace(TrainingArguments=Arguments))
    arguments: Any = Arguments()

    assert arguments._setup_devices == "cpu" and formed == [given]
    torch.init_process_group("gloo")
    assert formed[-1] is None, "a group of the script's own"


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


def test_it_is_looked_at_once_the_ranks_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def meet(url: str) -> Any:
        order.append(f"meet by {url}")
        yield "store", 0, 2
        order.append("end")

    def look(*_: object) -> None:
        order.append("look")
        raise OSError

    module = SimpleNamespace(rendezvous=meet)
    monkeypatch.setattr(interface, "choose", look)
    watch_rendezvous(module)

    assert [*module.rendezvous("env://")] == [("store", 0, 2)]
    assert order == ["meet by env://", "look", "end"]


@pytest.mark.parametrize("fails", [False, True])
def test_the_only_rank_is_lent_its_place_while_it_meets(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    for name in (*PLACE, SIZE):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("MASTER_PORT", "7")
    monkeypatch.setenv(SIZE, "1")
    seen = list[Any]()

    def meet(url: str, timeout: int) -> Any:
        seen.append({name: os.environ.get(name) for name in PLACE})
        if fails:
            raise ZeroDivisionError
        yield url, timeout
        yield "later"

    module = SimpleNamespace(_rendezvous_handlers={"env": meet})
    group_of_one.serve_alone(module)
    meeting = module._rendezvous_handlers["env"]("env://", timeout=3)

    if fails:
        with pytest.raises(ZeroDivisionError):
            next(meeting)
    else:
        assert next(meeting) == ("env://", 3)
        assert {name: os.environ.get(name) for name in PLACE} == {**dict.fromkeys(PLACE), "MASTER_PORT": "7"}
        assert [*meeting] == ["later"]
    assert seen == [{**PLACE, "MASTER_PORT": "7"}]
    assert {name: os.environ.get(name) for name in PLACE} == {**dict.fromkeys(PLACE), "MASTER_PORT": "7"}
