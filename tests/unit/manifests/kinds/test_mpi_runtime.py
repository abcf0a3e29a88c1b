"""The runtime whose ranks mpirun starts: one launcher, and nodes that listen."""

from __future__ import annotations

from manifests.kinds import trainer
from manifests.kinds.mpijob import SMALL
from tests.support.manifests import write


def test_a_runtime_of_mpi_has_one_launcher_for_all_its_nodes() -> None:
    spec = write("runtime", "--policy", "mpi", "--workers", "3", "--node-shape", "2x4", "smoke").manifest["spec"]
    nodes, launcher = spec["template"]["spec"]["replicatedJobs"]
    args = [each["template"]["spec"]["template"]["spec"]["containers"][0]["args"] for each in (nodes, launcher)]

    assert spec["mlPolicy"]["numNodes"] == 1 and spec["mlPolicy"]["mpi"]["numProcPerNode"] == 2
    assert spec["mlPolicy"]["mpi"]["mpiImplementation"] == "OpenMPI"
    assert args == [["worker"], ["smoke"]]
    assert nodes["template"]["spec"]["parallelism"] == nodes["template"]["spec"]["completions"] == 3
    assert launcher["template"]["metadata"]["labels"] == {trainer.STEP: "trainer"}
    assert launcher["dependsOn"] == [{"name": "node", "status": "Ready"}]


def test_ranks_are_reached_before_and_after_they_are_ready() -> None:
    spec = write("runtime", "--policy", "mpi").manifest["spec"]["template"]["spec"]

    assert spec["network"] == {"publishNotReadyAddresses": True}


def test_the_end_of_the_launcher_is_that_of_the_job() -> None:
    spec = write("runtime", "--policy", "mpi", "--max-restarts", "3").manifest["spec"]["template"]["spec"]

    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    assert spec["failurePolicy"] == {"maxRestarts": 3}
    for job in spec["replicatedJobs"]:
        assert job["template"]["spec"]["backoffLimit"] == 0
        assert job["template"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_the_launcher_is_small_and_no_node() -> None:
    spec = write("runtime", "--policy", "mpi", "--cpu", "64", "--memory", "99Gi").manifest["spec"]
    nodes, launcher = (
        job["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        for job in spec["template"]["spec"]["replicatedJobs"]
    )

    assert spec["mlPolicy"]["mpi"]["runLauncherAsNode"] is False
    assert nodes == {"cpu": "64", "memory": "99Gi"}
    assert launcher == SMALL
