"""Network interfaces that a variable names and that are not there."""

from __future__ import annotations

import pytest

from entrypoint.errors import EXIT_USER, Refusal
from entrypoint.machine.interfaces import BACKENDS, check_interfaces, find_wrong

HERE = ["eth0", "eth1", "lo"]


@pytest.mark.parametrize(
    ("value", "there"),
    [
        ("", True),
        ("eth0", True),
        ("lo,eth0", True),
        ("eth0,", True),
        ("eth0:1", True),  # a label of an address, of which the kernel's list does not know
        ("e", True),  # torch takes a single letter for nothing
        ("ib9", False),
        ("eth", False),
        ("eth0,ib9", False),
        ("eth0, lo", False),
        (",eth0", False),
        ("192.0.2.1", False),
    ],
)
def test_gloo_finds_every_name_of_a_list(value: str, there: bool) -> None:
    found = find_wrong({"GLOO_SOCKET_IFNAME": value}, HERE, ("gloo",))
    assert found == (None if there else "GLOO_SOCKET_IFNAME")


@pytest.mark.parametrize(
    ("variable", "value", "there"),
    [
        ("FI_TCP_IFACE", "eth1", True),
        ("FI_TCP_IFACE", "eth", True),  # what an old libfabric takes
        ("FI_TCP_IFACE", "th0", False),
        ("FI_TCP_IFACE", "eth0,lo", False),
        ("FI_TCP_IFACE", "ib9", False),
        ("CCL_KVS_IFACE", "th0", True),
        ("CCL_KVS_IFACE", "eth0:1", True),
        ("CCL_KVS_IFACE", "ib9", False),
    ],
)
def test_oneccl_reads_names_in_its_own_way(variable: str, value: str, there: bool) -> None:
    assert find_wrong({variable: value}, HERE, ("ccl",)) == (None if there else variable)


@pytest.mark.parametrize(
    ("variable", "backend", "names"),
    [("GLOO_SOCKET_IFNAME", "ccl", HERE), ("FI_TCP_IFACE", "gloo", HERE), ("GLOO_SOCKET_IFNAME", "gloo", [])],
)
def test_what_nobody_reads_or_nobody_knows_is_not_refused(variable: str, backend: str, names: list[str]) -> None:
    check_interfaces({variable: "ib9"}, names, backend)


def test_a_wrong_name_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(Refusal, match="no such network interface: GLOO_SOCKET_IFNAME=ib9\n") as caught:
        check_interfaces({"GLOO_SOCKET_IFNAME": "ib9"}, HERE, "gloo")
    assert caught.value.code == EXIT_USER
    assert caught.value.remedy.endswith("name one of these: eth0, eth1, lo")


def test_all_backends_are_asked_together() -> None:
    assert find_wrong({"GLOO_SOCKET_IFNAME": "lo", "FI_TCP_IFACE": "ib9"}, HERE, BACKENDS) == "FI_TCP_IFACE"
