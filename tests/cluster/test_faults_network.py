"""The network between two nodes fails, a node is late, a name does not resolve: what a user sees, and how soon."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.pair import Pair, both, elastic, fixed
from tests.support.faults import Broken, fault
from tests.support.harness import call
from tests.support.names import NameServer, State

ENDLESS = ("/opt/steps.py", "1000000")
FEW = ("/opt/steps.py", "5")
LATE = 60


@pytest.fixture
def pair(image: str) -> Iterator[Pair]:
    """Lend a network for two containers, and remove all of it."""
    lent = Pair(image, f"multinode-fault-{uuid.uuid4().hex[:8]}")
    try:
        lent.make()
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
@fault(
    "the network between two nodes is cut for 10 seconds",
    "rank 0 is done",
    "rank 1 is done",
    codes={"both nodes": 0}, within=60,
    remedy="nothing to do: the ranks wait, and go on within twice the time of the cut",
)  # fmt: skip
@pytest.mark.parametrize("how", [fixed, lambda _: elastic()], ids=["master", "elastic"])
def test_a_short_cut_costs_no_more_than_time(pair: Pair, how: Callable[[int], dict[str, str]], broken: Broken) -> None:
    pair.both(*ENDLESS, environ=[how(0), how(1)])
    assert pair.has_begun()

    with broken.happens():
        cut(pair, 10)
        assert pair.goes_on(5, 30)
        pair.enough()
        ends = pair.ends(60)

    broken.ended(both(ends))


@pytest.mark.slow
@fault(
    "the network between two nodes with a master is cut for 120 seconds",
    "rank 0 is done",
    "rank 1 is done",
    codes={"both nodes": 0}, within=300,
    remedy="nothing to do: the ranks wait, and go on within twice the time of the cut",
)  # fmt: skip
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
@fault(
    "the network to a node is cut for good, or its power fails; `MULTINODE_PEER_TIMEOUT` is 20 seconds here, not 300",
    "rank 0 on pod0 has lost another rank: ..., ...",
    "rank 1 on pod1 has lost another rank: ..., ...",
    codes={"the node with rank 0": 1, "the other": 1}, within=120,
    remedy="mend the network, or leave the node out; the same command goes on from the last checkpoint",
)  # fmt: skip
def test_a_cut_for_good_ends_both_sides(pair: Pair, broken: Broken) -> None:
    limit = {"MULTINODE_PEER_TIMEOUT": "20"}
    pair.both(*ENDLESS, environ=[fixed(0, **limit), fixed(1, **limit)])
    assert pair.has_begun()
    time.sleep(6)  # the thread looks for connections every 5 s

    with broken.happens():
        pair.drop()
        ends = pair.ends(120)

    broken.ended(*ends)


@pytest.mark.slow
@fault(
    "a worker is 60 seconds late",
    "rank 0 is done",
    "rank 1 is done",
    codes={"both nodes": 0}, within=200,
    remedy="nothing to do: the node with rank 0 waits for it, with a master 15 minutes, with an elastic endpoint 10",
)  # fmt: skip
@pytest.mark.parametrize("how", [fixed, lambda _: elastic()], ids=["master", "elastic"])
def test_a_late_worker_is_waited_for(pair: Pair, how: Callable[[int], dict[str, str]], broken: Broken) -> None:
    with broken.happens():
        pair.start("pod0", *FEW, environ=how(0))
        time.sleep(LATE)
        pair.start("pod1", *FEW, environ=how(1))
        ends = pair.ends(140)

    broken.ended(both(ends))


@pytest.mark.slow
@fault(
    "the name of the master does not resolve yet, because its pod has not started",
    "waiting until pod0 resolves, 900 s at most",
    "rank 1 is done",
    codes={"both nodes": 0}, within=120,
    remedy="nothing to do: a node waits for the name of the master 15 minutes, for an elastic endpoint 60 seconds",
)  # fmt: skip
def test_a_name_that_is_not_there_yet_is_waited_for(pair: Pair, broken: Broken) -> None:
    with broken.happens():
        assert pair.start("pod1", *FEW, environ=fixed(1)).said("waiting until pod0 resolves", 60)
        pair.start("pod0", *FEW, environ=fixed(0))
        ends = pair.ends(100)

    broken.ended(both(ends))


@pytest.fixture
def names(pair: Pair) -> Iterator[NameServer]:
    """Lend a name server that the containers of the pair ask."""
    found = call(["docker", "network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", pair.name])
    server = NameServer(found.out.strip(), State.FAILS)
    yield server
    server.close()


def ask(names: NameServer) -> tuple[str, ...]:
    """Return the options of a container that asks this server."""
    return ("--dns", names.host)


@pytest.mark.slow
@fault(
    "the name server answers with an error, or not at all, and then recovers",
    "waiting until master.test resolves, 900 s at most",
    "rank 1 is done",
    codes={"both nodes": 0}, within=120,
    remedy="nothing to do: the nodes go on as soon as it answers",
)  # fmt: skip
@pytest.mark.parametrize("state", [State.FAILS, State.SILENT])
def test_a_name_server_that_recovers(pair: Pair, names: NameServer, state: State, broken: Broken) -> None:
    names.state = state
    with broken.happens():
        for number in (0, 1):
            environ = {**fixed(number), "PET_MASTER_ADDR": "master.test"}
            pair.start(f"pod{number}", *FEW, environ=environ, options=ask(names))
        assert all(each.said("waiting until master.test resolves", 60) for each in pair.started.values())
        names.address = pair.address("pod0")
        names.state = State.KNOWS
        ends = pair.ends(100)

    broken.ended(both(ends))


@fault(
    "the name server never answers; `MULTINODE_TIMEOUT` is 3 seconds here, not 900",
    "the master's name did not resolve within 3 s: master.test",
    codes=138, within=60,
    remedy="check the name, and DNS in the cluster; `restartPolicy: ExitCode` or `OnFailure` starts the pod again",
)  # fmt: skip
@pytest.mark.parametrize("state", [State.FAILS, pytest.param(State.SILENT, marks=pytest.mark.slow)])
def test_a_name_server_that_does_not_recover(pair: Pair, names: NameServer, state: State, broken: Broken) -> None:
    names.state = state
    environ = {**fixed(1), "PET_MASTER_ADDR": "master.test", "MULTINODE_TIMEOUT": "3"}

    with broken.happens():
        pair.start("pod1", *FEW, environ=environ, options=ask(names))
        (end,) = pair.ends(60)

    broken.ended(end)
