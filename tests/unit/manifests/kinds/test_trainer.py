"""TrainJob and ClusterTrainingRuntime: what is in which."""

from __future__ import annotations

import pytest

from manifests import options
from manifests.kinds import trainer
from tests.support.launchers import left_by
from tests.support.manifests import IMAGE, write


def test_a_job_says_what_it_trains_and_patches_how() -> None:
    spec = write("trainjob", "--runtime", "mine", "--workers", "2", "--nproc", "4", "glue").manifest["spec"]

    assert spec["runtimeRef"] == {"name": "mine"}
    assert (spec["trainer"]["numNodes"], spec["trainer"]["numProcPerNode"]) == (2, 4)
    assert spec["trainer"]["args"] == ["glue", "--output_dir", "/workspace/output/transformers-trainjob"]
    assert "command" not in spec["trainer"]


def test_a_runtime_starts_all_pods_again() -> None:
    spec = write("runtime", "--max-restarts", "3", "--workers", "2", "smoke").manifest["spec"]
    [job] = spec["template"]["spec"]["replicatedJobs"]

    assert spec["mlPolicy"] == {"numNodes": 2, "torch": {}}
    assert spec["template"]["spec"]["failurePolicy"] == {"maxRestarts": 3}
    assert job["template"]["spec"]["backoffLimit"] == 0
    assert job["template"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workers", "1"), "1 pod(s) survive 5 crash(es)"),
        (("--workers", "4"), "4 pod(s) survive 1 crash(es)"),
        (("--workers", "6"), "6 pod(s) survive 0 crash(es); a runtime of your own"),
        (("--runtime", "multinode"), ""),
    ],
)
def test_how_many_crashes_the_usual_runtime_survives_is_noted(words: tuple[str, ...], said: str) -> None:
    printed = write("trainjob", *words)

    assert printed.code == 0
    assert said in printed.err and ("crash" in printed.err) is bool(said)


@pytest.mark.parametrize(("runtime", "said"), [("torch-distributed", False), ("multinode-mpi", True)])
def test_a_runtime_that_is_not_known_has_to_be_one_of_torch(runtime: str, said: bool) -> None:
    assert (f"{runtime} has to be a runtime of torch" in write("trainjob", "--runtime", runtime).err) is said


def test_the_variables_are_those_of_the_plugin() -> None:
    typed = {"image": IMAGE, "cpu": "8", "memory": "16Gi", "name": "job", "workers": "2", "nproc": "4"}
    job = options.make_job("trainjob", options.read_values("trainjob", typed), ("qa",))

    assert trainer.list_variables(job) == {**left_by("trainer-v2"), "PET_NODE_RANK": "0"}
