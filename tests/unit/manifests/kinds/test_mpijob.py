"""MPIJob: its launcher and workers."""

from __future__ import annotations

from typing import Any

import pytest

from entrypoint.mpi.keys import MOUNT
from tests.support.manifests import list_pods, write

KINDS = (("mpijob",), ("runtime", "--policy", "mpi"))


def test_the_launcher_runs_the_task_and_the_workers_wait() -> None:
    manifest = write("mpijob", "--workers", "3", "--nproc", "2", "smoke", "--bf16").manifest
    launcher, worker = (pod["containers"][0] for pod in list_pods(manifest))

    assert launcher["args"] == ["smoke", "--bf16"] and worker["args"] == ["worker"]
    assert manifest["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 3
    assert manifest["spec"]["slotsPerWorker"] == 2
    assert launcher["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(("restarts", "limit"), [("0", 0), ("1", 2), ("10", 11)])
def test_the_launcher_is_restarted_as_often_as_asked(restarts: str, limit: int) -> None:
    """A Job fails as soon as the restarts of its pod reach the limit."""
    assert write("mpijob", "--max-restarts", restarts).manifest["spec"]["runPolicy"]["backoffLimit"] == limit


def find_probes(manifest: dict[str, Any]) -> list[Any]:
    """Return the first argument of each container with its readiness probe, if it has one."""
    containers = [container for pod in list_pods(manifest) for container in pod["containers"]]
    return sorted((each["args"][0], each.get("readinessProbe")) for each in containers)


def test_the_launcher_comes_when_all_workers_listen() -> None:
    """A gang of its usual size, which has the launcher in it, would wait for ever."""
    spec = write("mpijob", "--workers", "3").manifest["spec"]

    assert spec["launcherCreationPolicy"] == "WaitForWorkersReady"
    assert spec["runPolicy"]["schedulingPolicy"] == {"minAvailable": 3}


@pytest.mark.parametrize(
    ("words", "seconds"),
    [((), []), (("--queue", "q"), ["900"]), (("--queue", "q", "--env", "MULTINODE_TIMEOUT=5"), ["5"])],
)
def test_the_launcher_of_a_queue_waits_for_nodes_that_pull_the_image(
    words: tuple[str, ...], seconds: list[str]
) -> None:
    """A job is suspended in a queue at first, and then the operator makes the launcher before the workers."""
    launcher = list_pods(write("mpijob", *words).manifest)[0]["containers"][0]

    assert [each["value"] for each in launcher["env"] if each["name"] == "MULTINODE_TIMEOUT"] == seconds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("words", "port"), [((), 2222), (("--env", "MULTINODE_SSH_PORT=2345"), 2345)])
def test_a_worker_is_ready_when_it_listens(kind: tuple[str, ...], words: tuple[str, ...], port: int) -> None:
    manifest = write(*kind, *words, "smoke").manifest

    assert find_probes(manifest) == [("smoke", None), ("worker", {"tcpSocket": {"port": port}})]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("pair", "fact"),
    [
        ("MULTINODE_SSH_PORT=abc", "MULTINODE_SSH_PORT is not a port"),
        ("MULTINODE_SSH_PORT=0", "MULTINODE_SSH_PORT is not a port"),
        ("MULTINODE_SSH_HOST_KEYS=no", "MULTINODE_SSH_HOST_KEYS is neither yes nor accept-new"),
        ("MULTINODE_SSH_KEYS=/keys", "the operator mounts the ssh key in another directory"),
    ],
)
def test_what_no_worker_takes_is_refused(kind: tuple[str, ...], pair: str, fact: str) -> None:
    printed = write(*kind, "--env", pair)

    assert (printed.code, printed.out) == (2, "")
    assert printed.err.startswith(f"error: {fact}: ")


@pytest.mark.parametrize("kind", [*KINDS, ("trainjob",)])
def test_other_variables_of_ssh_are_taken(kind: tuple[str, ...]) -> None:
    words = ("--env", "MULTINODE_SSH_HOST_KEYS=accept-new", "--env", f"MULTINODE_SSH_KEYS={MOUNT}/")

    assert write(*kind, *words).code == 0


def test_a_job_without_ssh_takes_any_of_its_variables() -> None:
    assert write("trainjob", "--env", "MULTINODE_SSH_PORT=abc").code == 0
