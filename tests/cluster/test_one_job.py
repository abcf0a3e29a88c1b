"""Two nodes whose script forms no group train nothing, and say what to write; whoever starts them, and however."""

from __future__ import annotations

import pytest

from tests.cluster.nodes import Cluster

STEPS = "for _ in range(2): optimizer.zero_grad(); model(torch.ones(2, 4)).sum().backward(); optimizer.step()\n"
APART = f"""\
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
{STEPS}print("trained")
"""
TOGETHER = APART.replace("nn.Linear(4, 1)", "nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))").replace(
    "import torch\n", "import torch\ntorch.distributed.init_process_group('gloo')\n"
)
NODES = [{"PET_NNODES": "2", "PET_MASTER_ADDR": "node0", "PET_NODE_RANK": str(each)} for each in (0, 1)]
SAID = "multinode: this process trains by itself, and was meant to be one of 2: "


@pytest.fixture
def scripts(cluster: Cluster) -> Cluster:
    """Put both scripts on both nodes."""
    for node in cluster.nodes:
        for name, text in (("apart", APART), ("together", TOGETHER)):
            assert node.shell(f"cat > /tmp/{name}.py <<'END'\n{text}END\n").code == 0
    return cluster


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        pytest.param(("/tmp/apart.py",), 'init_process_group("gloo")', id="a script"),
        # As the first, with remedies of rows of tests/unit.
        pytest.param(("python3", "/tmp/apart.py"), "multinode SCRIPT.py", id="Python", marks=pytest.mark.slow),
        pytest.param(
            ("bash", "-c", "cd /tmp && python3 -m apart"), "multinode -m MODULE", id="a shell", marks=pytest.mark.slow
        ),
        pytest.param(
            ("accelerate", "launch", "/tmp/apart.py"), "multinode SCRIPT.py", id="accelerate", marks=pytest.mark.slow
        ),
    ],
)
def test_nodes_that_train_apart_are_ended(scripts: Cluster, command: tuple[str, ...], remedy: str) -> None:
    done = scripts.both(*command, environ=NODES)

    for each in done:
        assert each.code and "trained" not in each.text.splitlines()
        assert SAID in each.text and remedy in each.text
        if command == ("/tmp/apart.py",):  # an agent of torchrun ends below its rank, with a traceback
            fact, last = each.text.splitlines()[-2:]
            assert "ChildFailedError" in each.text and fact.startswith(SAID) and remedy in last


@pytest.mark.slow  # two containers by variables are above; which starter it was is a row of tests/unit
def test_ranks_of_launch_that_train_apart_are_ended(scripts: Cluster) -> None:
    scripts.start(1, "worker")

    done = scripts.nodes[0].run(*scripts.launch("/tmp/apart.py"))

    assert done.code and "trained" not in done.text.splitlines() and SAID in done.text


@pytest.mark.parametrize(
    ("name", "more"),
    [("together", {}), pytest.param("apart", {"MULTINODE_APART": "1"}, id="apart on purpose", marks=pytest.mark.slow)],
)
def test_nodes_that_train_as_they_were_meant_to_end_well(scripts: Cluster, name: str, more: dict[str, str]) -> None:
    done = scripts.both(f"/tmp/{name}.py", environ=[{**each, **more} for each in NODES])

    assert [(each.code, each.text.splitlines().count("trained")) for each in done] == [(0, 1)] * 2


def test_a_script_with_a_group_runs_alone(scripts: Cluster) -> None:
    done = scripts.nodes[0].run("--nproc", "1", "/tmp/together.py")

    assert (done.code, done.out.splitlines()) == (0, ["trained"])
