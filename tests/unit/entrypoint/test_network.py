"""Routing tables, and the interface that leads to a master."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint import network
from entrypoint.network import find_interface, match, read_routes

HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
ETH0 = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
LAN = "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
DOCKER = "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"


def address(text: str) -> int:
    a, b, c, d = (int(part) for part in text.split("."))
    return (a << 24) + (b << 16) + (c << 8) + d


@pytest.mark.parametrize(
    ("master", "interface"),
    [("192.0.2.9", "eth0"), ("172.17.0.3", "docker0"), ("8.8.8.8", "eth0")],
)
def test_longest_match(monkeypatch: pytest.MonkeyPatch, master: str, interface: str) -> None:
    monkeypatch.setattr(network, "resolve", address)
    assert find_interface(read_routes(HEAD + ETH0 + LAN + DOCKER), master) == interface


def test_one_interface_needs_no_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "resolve", lambda host: pytest.fail(f"looked up {host}"))
    assert find_interface(read_routes(HEAD + ETH0), "nowhere") == "eth0"
    assert find_interface([], "nowhere") is None


def test_a_master_without_an_address_is_behind_the_default_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "resolve", lambda host: None)
    assert find_interface(read_routes(HEAD + DOCKER + ETH0), "nowhere") == "eth0"


@given(st.text())
def test_any_table_is_read(text: str) -> None:
    match(read_routes(HEAD + text), 1)
