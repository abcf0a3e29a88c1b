"""Training on two nodes: torchrun's rendezvous, and MPI over ssh."""

from __future__ import annotations

import re
import time

import pytest

from tests.cluster.conftest import Cluster

ELASTIC = {
    "PET_RDZV_ENDPOINT": "node0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "2:2",
    "PET_NPROC_PER_NODE": "auto", "PET_RDZV_ID": "job", "PET_MAX_RESTARTS": "0",
}  # fmt: skip


def weights(text: str) -> list[str]:
    """Read the digest of the weights that smoke printed."""
    return re.findall(r"smoke: passed: world_size=2 .* weights=(\w+)", text)


def test_torchrun_by_the_variables_of_an_elastic_pytorchjob(cluster: Cluster) -> None:
    done = cluster.both("smoke", "--bf16", environ=[ELASTIC, ELASTIC])

    assert [each.code for each in done] == [0, 0]
    assert len(weights(done[0].out + done[1].out)) == 1


def test_launch_over_ssh(cluster: Cluster) -> None:
    cluster.worker()

    done = cluster.nodes[0].run("launch", "--hosts", "node0,node1", "-n", "2", "--ppn", "1", "smoke", "--bf16")

    assert done.code == 0
    assert len(weights(done.out)) == 1


def test_a_remote_rank_has_the_environment_and_no_secret_is_on_a_command_line(cluster: Cluster) -> None:
    cluster.worker()
    script = "env; for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done"

    done = cluster.nodes[0].run("launch", "--hosts", "node0,node1", "-n", "2", "--ppn", "1", "bash", "-c", script)

    assert done.code == 0
    assert done.out.count("HF_TOKEN=hf_secret_of_the_test") == 2
    assert done.out.count("hf_secret_of_the_test") == 2
    for name in ("PATH=/usr/local", "LANG=C.UTF-8", "ACCELERATE_USE_CPU=1", "LD_PRELOAD=", "WORLD_SIZE=2"):
        assert len(re.findall(rf"(?m)^{name}", done.out)) == 2


def test_launch_names_the_host_that_never_comes(cluster: Cluster) -> None:
    started = time.monotonic()

    done = cluster.nodes[0].run("launch", "--hosts", "node0,node1", "--timeout", "5", "smoke")

    assert done.code == 1
    assert "node1" in done.err
    assert "node0" not in done.err.partition("node1")[0].rpartition("multinode:")[2]
    assert time.monotonic() - started < 30


def test_a_rank_that_fails_speaks_first(cluster: Cluster) -> None:
    cluster.worker()
    script = 'if [ "$RANK" = 1 ]; then echo out of luck >&2; exit 7; fi; sleep 60'

    done = cluster.nodes[0].run("launch", "--hosts", "node0,node1", "-n", "2", "--ppn", "1", "bash", "-c", script)

    assert done.code == 7
    assert done.err.index("out of luck") < done.err.index("rank 1 on")


@pytest.mark.parametrize("how", ["torchrun", "launch"])
def test_a_killed_rank_ends_the_job(cluster: Cluster, how: str) -> None:
    endless = ("smoke", "--max_steps", "1000000")
    if how == "torchrun":
        children = [node.start(*endless, environ=ELASTIC) for node in cluster.nodes]
    else:
        cluster.worker()
        children = [cluster.nodes[0].start("launch", "--hosts", "node0,node1", "-n", "2", "--ppn", "1", *endless)]
    cluster.started += children
    # A rank that has used 15 s of its core has imported everything and trains.
    busy = "[ $(awk '{print $14}' /proc/$pid/stat 2> /dev/null || echo 0) -ge 1500 ]"
    newest = "pid=$(pgrep -n -f 'multinode/[s]moke.py')"

    assert cluster.nodes[1].shell(f"until {newest} && {busy}; do sleep 0.2; done; kill -9 $pid").code == 0

    started = time.monotonic()
    codes = [child.wait(60) for child in children]
    assert all(codes)
    assert time.monotonic() - started < 60
