"""What can be wrong with two nodes, and what is said of it."""

from __future__ import annotations

import pytest

from tests.cluster.nodes import Cluster

MEETS = 'import torch.distributed; torch.distributed.init_process_group("gloo")'


@pytest.mark.slow
def test_ranks_of_two_jobs_that_met_on_one_port_do_not_pass(cluster: Cluster) -> None:
    """The variables of two jobs of Slurm, for which somebody has exported one port."""
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_LOCALID": "0"}
    step |= {"MASTER_ADDR": "node0", "MASTER_PORT": "23456"}
    environ = [{**step, "SLURM_PROCID": str(rank), "SLURM_JOB_ID": str(7 + rank)} for rank in (0, 1)]

    done = cluster.both("smoke", environ=environ)

    assert all(end.code for end in done)
    assert "the ranks are of different jobs, rank 0: SLURM_JOB_ID=7.0, rank 1: SLURM_JOB_ID=8.0" in "".join(
        end.out for end in done
    )


def test_a_host_that_refuses_ssh(cluster: Cluster) -> None:
    make = "mkdir /tmp/other && ssh-keygen -q -t ed25519 -N '' -f /tmp/other/id_ed25519"
    assert cluster.nodes[1].run("bash", "-c", make).code == 0
    cluster.start(1, "worker", environ={"MULTINODE_SSH_KEYS": "/tmp/other"})
    assert cluster.nodes[1].shell("until (< /dev/tcp/node1/2222) 2> /dev/null; do sleep 0.2; done").code == 0

    done = cluster.nodes[0].run("launch", "--hosts", "node0,node1", "--timeout", "10", "smoke")

    assert done.code == 1
    assert "node1 (Host key verification failed." in done.err


def test_a_key_that_is_not_a_key(cluster: Cluster) -> None:
    assert cluster.nodes[0].shell("mkdir /tmp/bad && echo hello > /tmp/bad/id_ed25519").code == 0

    done = cluster.nodes[0].run("worker", environ={"MULTINODE_SSH_KEYS": "/tmp/bad"})

    assert done.code == 2
    assert "not a private ssh key" in done.err
    assert "/tmp/bad/id_ed25519" in done.err


def test_a_script_on_one_node_only_does_not_let_the_other_wait(cluster: Cluster) -> None:
    write = f"echo '{MEETS}' > /tmp/train.py"
    assert cluster.nodes[0].shell(write).code == 0
    cluster.start(1, "worker")

    done = cluster.nodes[0].run(*cluster.launch("/tmp/train.py"), seconds=90)

    assert done.code == 2
    assert "no such script in this container: /tmp/train.py" in done.err
    assert "rank 1 on node1 ended with exit code 2; the job is ended" in done.err
