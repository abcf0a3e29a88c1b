"""The variables of Kubeflow's operators, or set by hand, in two containers: whose ranks meet.

The operators themselves do not run: a test gives each container what its pod would have.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.cluster.nodes import Cluster, places
from tests.cluster.packages import MEET
from tests.support.launchers import left_by

# The names of the pods, and the node that stands for each; the Master of an elastic job is none of its Workers.
HOSTS = {"job-master-0": "node0", "job-worker-0": "node1", "job-node-0-0.job": "node0"}
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
        found = {**(left_by(self.left) if self.left else {}), **self.more, **dict.fromkeys(self.ranks, str(number))}
        for pod, host in HOSTS.items():
            found = {name: value.replace(pod, host) for name, value in found.items()}
        return found


FORMS = (
    Form("PyTorchJob", "pytorchjob-master", {}, ("RANK", "PET_NODE_RANK")),
    Form("elastic", "pytorchjob-elastic", {"PET_NNODES": "2:2"}, ()),
    Form("elastic and a Master", "pytorchjob-elastic-master", {"PET_NNODES": "2:2", **ONE_EACH},
         ("RANK", "PET_NODE_RANK")),
    Form("TrainJob", "trainer-v2", ONE_EACH, ("PET_NODE_RANK",)),
    Form("one process for each by hand", "", BY_HAND, ("RANK",)),
    Form("ranks by hand", "", {**BY_HAND, "LOCAL_RANK": "0"}, ("RANK",)),
)  # fmt: skip


@pytest.mark.parametrize(
    "form", [pytest.param(form, id=form.name, marks=[pytest.mark.slow] * (form is not FORMS[0])) for form in FORMS]
)
def test_two_containers_meet(cluster: Cluster, form: Form) -> None:
    done = cluster.both(MEET, environ=[form.environ(number) for number in (0, 1)])

    assert [each.code for each in done] == [0, 0]
    assert sorted(places(done[0].out + done[1].out)) == ["node0 0/1", "node1 0/1"]
