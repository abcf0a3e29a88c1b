"""Training on two nodes: torchrun's rendezvous, and MPI over ssh."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.cluster.nodes import KILL_A_RANK, KILL_A_SUPERVISOR, STEPS, UNTIL_CLEAN, Cluster, one_said, type_mpirun
from tests.support.containers import Container
from tests.support.faults import Broken
from tests.support.harness import call

ENDLESS = (STEPS, "1000000")
TRAINS = "step 1\n"  # said by rank 0 when all ranks have met


@pytest.mark.slow  # the guide's own mpirun on two nodes is in test_guide.py
def test_mpirun_from_a_shell(cluster: Cluster) -> None:
    done = type_mpirun(cluster, "export MASTER_ADDR=$address", "smoke --bf16")

    assert done.code == 0
    assert len(re.findall(r"smoke: passed: world_size=2 ", done.out)) == 1


@pytest.mark.slow
def test_mpirun_without_a_master_is_refused(cluster: Cluster) -> None:
    done = type_mpirun(cluster, "", "smoke")

    assert done.code != 0
    assert "the ranks are on several nodes and MASTER_ADDR is not set" in done.text


def test_a_remote_rank_has_the_environment_and_no_secret_is_on_a_command_line(cluster: Cluster) -> None:
    cluster.start(1, "worker")
    # Into a file of each node: what two ranks write at the same time may be mixed within a line.
    script = "exec > /tmp/said; env; for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done"
    proxy = {"https_proxy": "http://user:hidden@proxy:3128"}

    done = cluster.nodes[0].run(*cluster.launch("bash", "-c", script), environ=proxy)

    assert done.code == 0
    said = [node.shell("cat /tmp/said").out for node in cluster.nodes]
    once = ("HF_TOKEN=hf_secret_of_the_test", "hf_secret_of_the_test", f"https_proxy={proxy['https_proxy']}", ":hidden")
    assert [[text.count(word) for word in once] for text in said] == [[1] * len(once)] * 2
    for name in ("PATH=/usr/local", "LANG=C.UTF-8", "ACCELERATE_USE_CPU=1", "LD_PRELOAD=", "WORLD_SIZE=2", "HF_HOME="):
        assert [len(re.findall(rf"(?m)^{name}", text)) for text in said] == [1, 1], name


def test_launch_waits_for_a_host_that_comes_late(cluster: Cluster) -> None:
    job = cluster.start(0, *cluster.launch("bash", "-c", "echo rank $RANK is here"))
    assert job.said("waiting for node1")

    cluster.start(1, "worker")

    done = job.finish()
    assert done.code == 0
    assert {"rank 0 is here", "rank 1 is here"} <= set(done.out.splitlines())


def test_launch_names_the_host_that_never_comes(cluster: Cluster) -> None:
    done = cluster.nodes[0].run("launch", "--hosts", "node0,node1", "--timeout", "5", "smoke", seconds=90)

    assert done.code == 1
    refusal = done.err.splitlines()[-2]
    assert "node1" in refusal
    assert "node0" not in refusal


def kill_under_launch(cluster: Cluster, broken: Broken, kill: str) -> None:
    """Kill a process on node1 while both nodes train under `launch`, and compare how the job ends with its row."""
    cluster.start(1, "worker")
    child = cluster.start(0, *cluster.launch(*ENDLESS))
    assert one_said(TRAINS, [child])

    with broken.happens():
        assert cluster.nodes[1].shell(kill).code == 0
        done = child.finish()

    broken.ended(done)


def test_a_rank_that_fails_speaks_first(cluster: Cluster, broken: Broken) -> None:
    cluster.start(1, "worker")
    script = 'if [ "$RANK" = 1 ]; then echo out of luck >&2; exit 7; fi; sleep 300'

    with broken.happens():
        done = cluster.nodes[0].run(*cluster.launch("bash", "-c", script))

    broken.ended(done)
    assert done.err.index("out of luck") < done.err.index("rank 1 on")


def test_a_killed_rank_of_torchrun_ends_the_job(cluster: Cluster, broken: Broken) -> None:
    children = [cluster.start(number, *ENDLESS, environ=cluster.elastic) for number in (0, 1)]
    assert one_said(TRAINS, children)

    with broken.happens():
        assert cluster.nodes[1].shell(KILL_A_RANK).code == 0
        done = [child.finish() for child in children]

    broken.ended(*done)


def test_a_killed_rank_of_launch_ends_the_job(cluster: Cluster, broken: Broken) -> None:
    kill_under_launch(cluster, broken, KILL_A_RANK)


@pytest.mark.slow  # the same end as that of a killed rank, by another message
def test_a_rank_that_cannot_report_its_end_is_named(cluster: Cluster, broken: Broken) -> None:
    kill_under_launch(cluster, broken, KILL_A_SUPERVISOR)


@pytest.mark.slow  # hydra ends a job for it as for a killed rank
def test_a_killed_proxy_of_hydra_ends_the_job(cluster: Cluster, broken: Broken) -> None:
    kill_under_launch(cluster, broken, "pkill -9 hydra_pmi_proxy")

    assert cluster.nodes[1].shell(UNTIL_CLEAN).code == 0


@pytest.mark.slow  # hydra ends a job for it as for a killed rank
def test_a_killed_worker_ends_the_job(cluster: Cluster, container: Callable[..., Container], broken: Broken) -> None:
    worker = container("pod1", 1, "worker")
    launcher = container("pod0", 0, "launch", "--hosts", "pod0,pod1", "-n", "2", "--ppn", "1", *ENDLESS)
    cluster.started.append(launcher.follow())
    assert one_said(TRAINS, cluster.started)

    with broken.happens():
        assert call(["docker", "kill", worker.name]).code == 0
        done = launcher.done()

    broken.ended(done)


def test_sigterm_ends_a_launch_container_and_leaves_nothing_in_the_worker(
    cluster: Cluster, container: Callable[..., Container]
) -> None:
    worker = container("pod1", 1, "worker")
    launcher = container("pod0", 0, "launch", "--hosts", "pod0,pod1", "-n", "2", "--ppn", "1", *ENDLESS)
    cluster.started.append(launcher.follow())
    assert one_said(TRAINS, cluster.started)

    assert launcher.stop()

    assert launcher.code() == 143
    assert worker.shell(UNTIL_CLEAN).code == 0, worker.shell("ps -ef").out
    assert worker.stop()
