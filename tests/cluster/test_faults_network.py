"""The network between two nodes fails, a node is late, a name does not resolve: what a user sees, and how soon."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.cluster.nodes import STEPS, Told, elastic, fixed
from tests.cluster.pair import Pair, both
from tests.support.containers import gateway, network
from tests.support.faults import Broken
from tests.support.name_server import NameServer, State

ENDLESS = (STEPS, "1000000")
FEW = (STEPS, "5")
LATE = 60


@pytest.fixture
def pair(image: str) -> Iterator[Pair]:
    """Lend a network for two containers, and remove all of it."""
    with network() as name:
        lent = Pair(image, name)
        try:
            yield lent
        finally:
            lent.remove()


def cut(pair: Pair, seconds: float) -> None:
    """Cut the network of two nodes in mid-training for some seconds."""
    assert pair.has_begun()
    pair.drop()
    time.sleep(seconds)
    pair.let_pass()


@pytest.mark.slow
@pytest.mark.parametrize("how", [fixed, elastic], ids=["master", "elastic"])
def test_a_short_cut_costs_no_more_than_time(pair: Pair, how: Told, broken: Broken) -> None:
    pair.both(*ENDLESS, environ=[how(0), how(1)])
    assert pair.has_begun()

    with broken.happens():
        cut(pair, 10)
        assert pair.goes_on(5, 30)
        pair.enough()
        ends = pair.ends(60)

    broken.ended(both(ends))


@pytest.mark.slow
def test_a_long_cut_costs_no_more_than_time(pair: Pair, broken: Broken) -> None:
    pair.both(*ENDLESS, environ=[fixed(0), fixed(1)])
    assert pair.has_begun()

    with broken.happens():
        cut(pair, 120)
        assert pair.goes_on(5, 140)
        pair.enough()
        ends = pair.ends(60)

    broken.ended(both(ends))


@pytest.mark.slow
def test_a_cut_for_good_ends_both_sides(pair: Pair, broken: Broken) -> None:
    for number in (0, 1):
        pair.start(f"pod{number}", *ENDLESS, environ=fixed(number), options=("--sysctl", "net.ipv4.tcp_retries2=6"))
    assert pair.has_begun()

    with broken.happens():
        pair.drop()
        ends = pair.ends(120)

    broken.ended(*ends)


@pytest.mark.slow
@pytest.mark.parametrize("how", [fixed, elastic], ids=["master", "elastic"])
def test_a_late_worker_is_waited_for(pair: Pair, how: Told, broken: Broken) -> None:
    with broken.happens():
        pair.start("pod0", *FEW, environ=how(0))
        time.sleep(LATE)
        pair.start("pod1", *FEW, environ=how(1))
        ends = pair.ends(140)

    broken.ended(both(ends))


@pytest.mark.slow
def test_a_name_that_is_not_there_yet_is_waited_for(pair: Pair, broken: Broken) -> None:
    with broken.happens():
        assert pair.start("pod1", *FEW, environ=fixed(1)).said("waiting until pod0 resolves", 60)
        pair.start("pod0", *FEW, environ=fixed(0))
        ends = pair.ends(100)

    broken.ended(both(ends))


@pytest.fixture
def names(pair: Pair) -> Iterator[NameServer]:
    """Lend a name server that the containers of the pair ask."""
    server = NameServer(gateway(pair.name), State.FAILS)
    yield server
    server.close()


def ask(names: NameServer) -> tuple[str, ...]:
    """Return the options of a container that asks this server."""
    return ("--dns", names.host)


@pytest.mark.slow
@pytest.mark.parametrize("state", [State.FAILS, State.SILENT])
def test_a_name_server_that_recovers(pair: Pair, names: NameServer, state: State, broken: Broken) -> None:
    names.state = state
    with broken.happens():
        for number in (0, 1):
            environ = fixed(number, PET_MASTER_ADDR="master.test")
            pair.start(f"pod{number}", *FEW, environ=environ, options=ask(names))
        assert all(pod.said("waiting until master.test resolves", 60) for pod in pair.started.values())
        names.address = pair.address("pod0")
        names.state = State.KNOWS
        ends = pair.ends(100)

    broken.ended(both(ends))


@pytest.mark.parametrize("state", [State.FAILS, pytest.param(State.SILENT, marks=pytest.mark.slow)])
def test_a_name_server_that_does_not_recover(pair: Pair, names: NameServer, state: State, broken: Broken) -> None:
    names.state = state
    environ = fixed(1, PET_MASTER_ADDR="master.test", MULTINODE_TIMEOUT="3")

    with broken.happens():
        pair.start("pod1", *FEW, environ=environ, options=ask(names))
        (end,) = pair.ends(60)

    broken.ended(end)
