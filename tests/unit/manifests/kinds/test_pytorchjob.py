"""PyTorchJob: its replicas, and what its operator sets."""

from __future__ import annotations

from typing import Any

import pytest

from manifests import options
from manifests.kinds import pytorchjob
from tests.support.launchers import left_by
from tests.support.manifests import IMAGE, list_pods, write
from tests.support.operators import set_variables


def made(*words: str) -> dict[str, Any]:
    return write("pytorchjob", *words).manifest


def test_an_elastic_job_has_workers_only() -> None:
    spec = made("--elastic", "2:8", "--max-restarts", "3")["spec"]

    assert list(spec["pytorchReplicaSpecs"]) == ["Worker"]
    assert spec["elasticPolicy"] == {"rdzvBackend": "c10d", "minReplicas": 2, "maxReplicas": 8, "maxRestarts": 3}


@pytest.mark.parametrize(("bounds", "said"), [("1:4", True), ("3:8", True), ("4:4", False), ("4:8", False)])
def test_pods_that_may_come_late_are_noted(bounds: str, said: bool) -> None:
    assert ("training begins without pods that start 30 s" in write("pytorchjob", "--elastic", bounds).err) is said


@pytest.mark.parametrize("bounds", ["1:4", "4:4"])
def test_an_elastic_job_has_no_init_container_to_speak_of(bounds: str) -> None:
    assert "init container" not in write("pytorchjob", "--elastic", bounds).err


@pytest.mark.parametrize(("workers", "replicas"), [("1", {"Master": 1}), ("4", {"Master": 1, "Worker": 3})])
def test_a_fixed_job_has_a_master_among_its_pods(workers: str, replicas: dict[str, int]) -> None:
    printed = write("pytorchjob", "--elastic", "off", "--workers", workers, "--max-restarts", "3")
    spec = printed.manifest["spec"]

    assert {kind: each["replicas"] for kind, each in spec["pytorchReplicaSpecs"].items()} == replicas
    assert "elasticPolicy" not in spec
    for said in ("Workers are Burstable", "the `restricted` profile refuses", "alpine:3.10", f"--elastic {workers}:"):
        assert (said in printed.err) is ("Worker" in replicas), said


@pytest.mark.parametrize(
    ("words", "recorded", "changed"),
    [
        ({"elastic": (1, 4), "restarts": 3}, "pytorchjob-elastic", {}),
        ({"elastic": None, "workers": 2}, "pytorchjob-master", {"RANK": "0", "PET_NODE_RANK": "0"}),
    ],
)
def test_the_variables_are_those_of_the_operator(words: dict[str, Any], recorded: str, changed: dict[str, str]) -> None:
    values = options.read_values("pytorchjob", {"image": IMAGE, "cpu": "8", "memory": "16Gi", "name": "job"})
    job = options.make_job("pytorchjob", values, ("qa",))
    job = job.__class__(**{**job.__dict__, **words})

    # The recorded job had `standalone: true`, which is the only reason for the last one (elastic.go).
    expected = {**left_by(recorded), **changed}
    expected.pop("PET_STANDALONE", None)
    assert pytorchjob.list_variables(job) == expected


FORMS = ("off", "1:4")
# What some PyTorchJob gets from the operator, and whether it names a number.
VARIABLES = {
    "MASTER_ADDR": "node0", "MASTER_PORT": "23456", "RANK": "0", "WORLD_SIZE": "4", "PYTHONUNBUFFERED": "0",
    "PET_MASTER_ADDR": "node0", "PET_MASTER_PORT": "23456", "PET_NNODES": "4", "PET_NODE_RANK": "0",
    "PET_NPROC_PER_NODE": "1", "PET_RDZV_ENDPOINT": "node0:29400", "PET_RDZV_BACKEND": "c10d", "PET_MAX_RESTARTS": "3",
    "PET_RDZV_ID": "mine", "PET_RDZV_CONF": "read_timeout=300", "PET_STANDALONE": "0",
}  # fmt: skip


@pytest.mark.parametrize("elastic", FORMS)
@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_is_refused_where_this_job_gets_it_from_the_operator(elastic: str, name: str) -> None:
    operators = set_variables(made("--elastic", elastic), "worker", 0)

    printed = write("pytorchjob", "--elastic", elastic, "--env", f"{name}={VARIABLES[name]}")

    assert ("the operator sets this variable itself" in printed.err) is (name in operators), printed.err


@pytest.mark.parametrize("elastic", FORMS)
@pytest.mark.parametrize("pair", ["PET_RDZV_CONF=read_timeout=300", "PET_RDZV_ID=mine"])
def test_what_no_policy_of_the_job_sets_is_left_to_the_user(elastic: str, pair: str) -> None:
    assert write("pytorchjob", "--elastic", elastic, "--env", pair).code == 0


@pytest.mark.parametrize(
    ("elastic", "workers", "restarts", "limit"),
    [
        ("off", "1", "0", 0),
        ("off", "1", "1", 2),
        ("off", "1", "10", 11),
        ("off", "4", "10", 41),
        ("off", "16", "0", 0),
        ("off", "16", "10", 161),
        ("1:4", "4", "10", 41),
        ("2:8", "4", "3", 25),  # it may have become as many as that
        ("1:4", "4", "0", 0),
    ],
)
def test_restarts_of_all_pods_are_added_up(elastic: str, workers: str, restarts: str, limit: int) -> None:
    """Each pod is restarted after a crash, and the operator fails a job whose restarts reach the limit."""
    spec = made("--elastic", elastic, "--workers", workers, "--max-restarts", restarts)["spec"]

    assert spec["runPolicy"]["backoffLimit"] == limit


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (("--elastic", "1:4"), ["900"]),
        (("--elastic", "1:4", "--env", "MULTINODE_TIMEOUT=60"), ["60"]),
        (("--elastic", "off"), []),
    ],
)
def test_pods_wait_for_the_first_as_they_do_for_a_master(words: tuple[str, ...], seconds: list[str]) -> None:
    [container] = list_pods(made(*words))[-1]["containers"]

    assert [row["value"] for row in container["env"] if row["name"] == "MULTINODE_TIMEOUT"] == seconds
