"""The operator of the tests makes of a job what the real one was seen to make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.launchers import left_by
from tests.support.manifests import write
from tests.support.mpi_operator import make_mpi_pods, write_hostfile
from tests.support.operators import TORCH_DISTRIBUTED, make_pods, make_trainjob_pods

ADDRESSES = ("10.0.0.2", "10.0.0.3")


def list_pods(*words: str) -> list[dict[str, Any]]:
    return make_pods(write("pytorchjob", "--name", "job", "--workers", "2", *words).manifest, ADDRESSES)


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row.get("value") for row in pod["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("words", "recorded", "waits"),
    [
        (("--elastic", "off"), "pytorchjob-master", [False, True]),
        (("--elastic", "1:4", "--max-restarts", "3"), "pytorchjob-elastic", [False, False]),
    ],
)
def test_the_pods_of_a_pytorchjob_have_the_variables_that_were_recorded(
    words: tuple[str, ...], recorded: str, waits: list[bool]
) -> None:
    """The recorded elastic job had `standalone: true`, which is the only reason for PET_STANDALONE."""
    pods, known = list_pods(*words), left_by(recorded)
    known.pop("PET_STANDALONE", None)

    assert known.items() <= variables(pods[1]).items()
    assert ["RANK" in variables(pod) for pod in pods] == ["RANK" in known] * 2
    assert ["initContainers" in pod["spec"] for pod in pods] == waits


def test_a_pod_knows_the_other_by_its_service_and_the_operators_variables_come_last() -> None:
    first, second = list_pods("--elastic", "off", "--env", "LOGLEVEL=INFO")

    assert first["spec"]["hostAliases"] == [{"ip": "10.0.0.3", "hostnames": ["job-worker-0"]}]
    assert second["spec"]["hostAliases"] == [{"ip": "10.0.0.2", "hostnames": ["job-master-0"]}]
    names = [row["name"] for row in first["spec"]["containers"][0]["env"]]
    assert names.index("LOGLEVEL") < names.index("RANK")


def trained(runtime: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    job = write(
        "trainjob", "--name", "job", "--workers", "2", "--nproc", "4", "--env", "LOGLEVEL=INFO", "smoke"
    ).manifest
    return make_trainjob_pods(job, runtime or TORCH_DISTRIBUTED, ADDRESSES)


def test_the_pods_of_a_trainjob_have_the_variables_that_were_recorded_and_a_name_of_the_first() -> None:
    pods = trained()

    assert left_by("trainer-v2").items() <= variables(pods[1]).items()
    for pod in pods:
        assert {"ip": "10.0.0.2", "hostnames": ["job-node-0-0.job"]} in pod["spec"]["hostAliases"]


def test_a_trainjob_patches_its_runtime() -> None:
    """The same pods come of the runtime that Trainer has and of the one that is printed, but for their restarts."""
    plain, ours = trained(), trained(write("runtime").manifest)

    for one, other in zip(plain, ours, strict=True):
        [container], [same] = one["spec"]["containers"], other["spec"]["containers"]
        assert container["args"] == ["smoke"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/workspace/output", "/dev/shm", "/tmp"}
        same["volumeMounts"] = [mount for mount in same["volumeMounts"] if mount["name"] != "home"]
        same["env"] = [row for row in same["env"] if row["name"] != "HOME"]
        assert container == {key: same[key] for key in container}
        assert [*one["spec"]["volumes"], {"name": "home", "emptyDir": {}}] == other["spec"]["volumes"]
        assert (one["spec"]["restartPolicy"], other["spec"]["restartPolicy"]) == ("OnFailure", "Never")


def test_the_pods_of_an_mpijob_have_what_its_operator_gives_them(tmp_path: Path) -> None:
    job = write("mpijob", "--name", "job", "--workers", "2", "--nproc", "2", "smoke").manifest

    *workers, launcher = make_mpi_pods(job, tmp_path, (*ADDRESSES, "10.0.0.4"))

    assert write_hostfile(job) == "job-worker-0.job.default.svc:2\njob-worker-1.job.default.svc:2\n"
    assert left_by("mpijob-launcher-intel").items() <= variables(launcher).items()
    for worker in workers:
        assert left_by("mpijob-worker").items() <= variables(worker).items()
        assert worker["spec"]["containers"][0]["args"] == ["worker"]
        assert worker["spec"]["containers"][0]["volumeMounts"][-1]["mountPath"] == "/etc/multinode/ssh"
        assert worker["spec"]["hostAliases"][-1]["hostnames"] == ["job-launcher.job.default.svc", "job-launcher"]
    assert launcher["spec"]["hostAliases"][0]["hostnames"] == ["job-worker-0.job.default.svc"]
