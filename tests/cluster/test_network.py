"""`doctor --network` on two nodes whose network is limited by a token bucket: it finds the limit."""

from __future__ import annotations

import re

import pytest

from benchmarks.report.scaling import DATA
from tests.cluster.nodes import Cluster
from tests.support.containers import Container


def limit(cluster: Cluster, megabits: int) -> None:
    """Limit what both nodes send; a restart of a node takes it away.

    The bucket holds 100 ms, by which the timers of a busy machine may be late: what a smaller one has not kept is lost.
    """
    rate, burst = f"{megabits}mbit", f"{megabits * 1000 // 8 // 10}kb"
    for node in cluster.nodes:
        bucket = ("tbf", "rate", rate, "burst", burst, "latency", "50ms")
        Container(node.container).change_network("tc", "qdisc", "add", "dev", "eth0", "root", *bucket)


def read_rate(text: str) -> float:
    """Return the MB of data that each rank sends in a second."""
    (rate,) = re.findall(r"^2 ranks, gloo: each sends (\d+) MB/s", text, re.MULTILINE)
    return float(rate)


@pytest.mark.slow  # the same measurement as by launch, started in the other way
def test_the_network_between_two_nodes_that_meet_by_variables(cluster: Cluster) -> None:
    limit(cluster, 300)

    done = cluster.both("doctor", "--network", environ=[cluster.elastic] * 2)

    assert [end.code for end in done] == [0, 0]
    assert read_rate(done[0].out + done[1].out) == pytest.approx(300 / 8 * DATA, rel=0.2)


def test_the_network_between_the_hosts_of_launch(cluster: Cluster) -> None:
    limit(cluster, 100)
    cluster.start(1, "worker")

    done = cluster.nodes[0].run(*cluster.launch("doctor", "--network"))

    assert done.code == 0
    assert read_rate(done.out) == pytest.approx(100 / 8 * DATA, rel=0.2)
    shares = [int(share) for share in re.findall(r"(\d+)%", done.out)]
    assert len(shares) % 4 == 0 and shares[0] > shares[2]  # plain DDP, and half of what is sent by default
