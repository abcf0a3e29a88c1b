"""The variables of Kubeflow's operators, of schedulers, or set by hand, in two containers: whose ranks meet.

The operators themselves do not run: a test gives each container what its pod would have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.nodes import MEET, Cluster, places, worlds
from tests.support.harness import call
from tests.support.launchers import left_by

# The names of the pods, and the node that stands for each; the Master of an elastic job is none of its Workers.
HOSTS = {
    "job-master-0": "node0",
    "job-worker-0": "node1",
    "job-node-0-0.job": "node0",
    "10.0.0.4": "node0",  # SkyPilot
    "10.0.0.5": "node1",
    "10.128.0.47": "node0",  # dstack
    "10.65.0.2": "node0",  # RunPod
    "qa-0.qa.default": "node0",  # LeaderWorkerSet
}
ONE_EACH = {"PET_NPROC_PER_NODE": "1"}  # a node of the tests has a core
BY_HAND = {"MASTER_ADDR": "node0", "WORLD_SIZE": "2"}


@dataclass(frozen=True)
class Form:
    """A recorded environment, what a job of two nodes has in place of it, and the names that count nodes or ranks."""

    name: str
    left: str
    more: dict[str, str]
    ranks: tuple[str, ...]

    def environ(self, number: int) -> dict[str, str]:
        """Return the variables of a node."""
        variables = {**(left_by(self.left) if self.left else {}), **self.more, **dict.fromkeys(self.ranks, str(number))}
        for pod, host in HOSTS.items():
            variables = {name: value.replace(pod, host) for name, value in variables.items()}
        return variables


FORMS = (
    Form("PyTorchJob", "pytorchjob-master", {}, ("RANK", "PET_NODE_RANK")),
    Form("elastic", "pytorchjob-elastic", {"PET_NNODES": "2:2"}, ()),
    Form("elastic and a Master", "pytorchjob-elastic-master", {"PET_NNODES": "2:2", **ONE_EACH},
         ("RANK", "PET_NODE_RANK")),
    Form("TrainJob", "trainer-v2", ONE_EACH, ("PET_NODE_RANK",)),
    Form("one process for each by hand", "", BY_HAND, ("RANK",)),
    Form("SkyPilot", "skypilot", ONE_EACH, ("SKYPILOT_NODE_RANK",)),
    Form("dstack", "dstack", ONE_EACH, ("DSTACK_NODE_RANK",)),
    Form("RunPod", "runpod", ONE_EACH, ("NODE_RANK",)),
    Form("LeaderWorkerSet", "leaderworkerset", ONE_EACH, ("LWS_WORKER_INDEX",)),
)  # fmt: skip


@pytest.mark.parametrize(
    "form", [pytest.param(form, id=form.name, marks=[pytest.mark.slow] * (form is not FORMS[0])) for form in FORMS]
)
def test_two_containers_meet(cluster: Cluster, form: Form) -> None:
    done = cluster.both(MEET, environ=[form.environ(number) for number in (0, 1)])

    assert [end.code for end in done] == [0, 0]
    assert sorted(places(done[0].out + done[1].out)) == ["node0 0/1", "node1 0/1"]


@pytest.fixture
def address6(cluster: Cluster) -> Iterator[str]:
    """Connect both nodes to a network of IPv6 as well; give the address of the first there."""
    name = f"multinode{os.getpid()}six"
    create = ["docker", "network", "create", "--ipv6", "--subnet", f"fd77:6d75:6c74:{os.getpid() % 65536:x}::/64", name]
    if call(create).code:
        pytest.skip("NO IPv6: the engine makes no network of it")
    try:
        for node in cluster.nodes:
            assert call(["docker", "network", "connect", name, node.container]).code == 0
        shown = f'{{{{(index .NetworkSettings.Networks "{name}").GlobalIPv6Address}}}}'
        yield call(["docker", "inspect", "--format", shown, cluster.nodes[0].container]).out.strip()
    finally:
        for node in cluster.nodes:
            call(["docker", "network", "disconnect", "--force", name, node.container])
        call(["docker", "network", "rm", name])


@pytest.mark.slow
def test_ranks_by_hand_meet_at_an_address_in_brackets(cluster: Cluster, address6: str) -> None:
    """Without MASTER_PORT, and on another network than that of their names."""
    environ = {"MASTER_ADDR": f"[{address6}]", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}

    done = cluster.both(MEET, environ=[{**environ, "RANK": str(number)} for number in (0, 1)])

    assert [end.code for end in done] == [0, 0]
    assert places(done[0].out + done[1].out) == ["node0 0/1", "node1 0/1"]
    assert all("gloo on eth1" in end.out for end in done)


@pytest.mark.slow
def test_two_elastic_jobs_at_one_endpoint_stay_two(cluster: Cluster) -> None:
    """Both name one endpoint, as two jobs of Slurm on the same nodes do; the second is whole before the first is."""
    one, other = ({**cluster.elastic, "PET_RDZV_ID": "", "SLURM_JOB_ID": number} for number in ("1", "2"))
    first = cluster.start(0, MEET, environ=one)
    assert cluster.nodes[0].shell("until (< /dev/tcp/node0/23456) 2> /dev/null; do sleep 0.2; done").code == 0

    second = cluster.both(MEET, environ=[other, other])
    last = cluster.start(1, MEET, environ=one)

    done = [*second, first.finish(60), last.finish(60)]
    assert [end.code for end in done] == [0] * 4
    met = [[rank["job"] for rank in world] for end in done for world in worlds(end.out)]
    assert met == [["2", "2"], ["1", "1"]]
