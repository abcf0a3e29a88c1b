"""How a container's first process starts what it is given, waits, and ends."""

from __future__ import annotations

import pytest

from tests.support.containers import detached
from tests.support.harness import run

WAITS = ("--env", "PET_NNODES=2", "--env", "PET_NODE_RANK=1", "--env", "PET_MASTER_ADDR=nobody.invalid")


def test_sigterm_ends_the_first_process_of_a_pod_while_it_waits(image: str) -> None:
    """A pod's `command: [torchrun, ...]` takes the place of tini; the kernel gives process 1 no SIGTERM by itself."""
    with detached(*WAITS, "--entrypoint", "torchrun", image, "train.py") as pod:
        assert pod.said("waiting until nobody.invalid resolves")

        pod.signal("TERM")

        assert pod.code(60) == 143, "it waits for minutes otherwise"


def test_tini_says_nothing_where_it_is_not_the_first_process(image: str) -> None:
    done = run(image, "true", options=["--init"])

    assert done.code == 0
    assert all(line.startswith("multinode: ") for line in done.err.splitlines())


def test_an_address_that_can_be_bound_is_not_this_machine(image: str) -> None:
    """As with keepalived, all can be; hydra would run the ranks of every host here."""
    script = "import socket; socket.create_server(('10.77.0.9', 4000)); print('bound')"
    options = ["--sysctl", "net.ipv4.ip_nonlocal_bind=1", "--env", "MULTINODE_SSH_KEYS=/none", "--entrypoint", "bash"]

    command = f'python3 -c "{script}"; multinode ssh 10.77.0.9 echo here; multinode ssh 127.0.0.1 echo here'
    done = run(image, "-c", command, options=options)

    assert done.out.splitlines() == ["bound", "here"]


ACCELERATE = "accelerate launch --cpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no"


@pytest.mark.slow  # the start of accelerate shows the reason; tests/unit has what is asked for
def test_accelerate_that_would_start_one_process_is_refused(image: str) -> None:
    """What it does by itself is the reason: it starts one, with no word of the other."""
    typed, size = f"{ACCELERATE} /tmp/x.py", "import os; print(os.environ.get('WORLD_SIZE'))"

    done = run(image, "-c", f'echo "{size}" > /tmp/x.py; {typed}; multinode {typed}', options=["--entrypoint", "bash"])

    assert done.out.splitlines() == ["None"]
    assert done.code == 2
    assert "starts one process on a CPU, however many are asked for: --num_processes 2" in done.err
    assert "try: torchrun --nproc_per_node N SCRIPT.py" in done.err
