"""Two nodes whose script forms no group end with an error, and say what to write; whoever starts them, and however."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.nodes import Cluster, fixed
from tests.support.containers import own_names
from tests.support.documents import page
from tests.support.harness import call

PAGE = page("docs/plain-pytorch.md")
DIFFERENCE = next(lines for _, lines in PAGE.blocks if "+import torch.distributed as dist" in lines)
# A loop before and after what the page changes in it, writing where these containers may.
APART, TOGETHER = (
    "".join(f"{line[1:]}\n" for line in DIFFERENCE if not line.startswith(other)).replace("/workspace/output/", "/tmp/")
    for other in "+-"
)
NODES = [fixed(number, PET_MASTER_ADDR="node0") for number in (0, 1)]
WHOLE, HALF = "epoch 2: 40 steps", "epoch 2: 20 steps"  # of one process with all data, and of a rank with its part
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

    for end in done:
        assert end.code and SAID in end.text and remedy in end.text
    if command == ("/tmp/apart.py",):  # an agent of torchrun ends below its rank, with a traceback
        ends = [end.text.splitlines()[-3:] for end in done]
        assert all(last.startswith("multinode: the job has failed: ") for *_, last in ends)
        # One of them may have been ended because the other one was.
        assert any(fact.startswith(SAID) and remedy in typed for fact, typed, _ in ends)


@pytest.mark.slow  # two containers by variables are above; which starter it was is a row of tests/unit
def test_ranks_of_launch_that_train_apart_are_ended(scripts: Cluster) -> None:
    scripts.start(1, "worker")

    done = scripts.nodes[0].run(*scripts.launch("/tmp/apart.py"))

    assert done.code and SAID in done.text


@pytest.mark.parametrize(
    ("name", "more", "last"),
    [
        ("together", {}, HALF),
        pytest.param("apart", {"MULTINODE_APART": "1"}, WHOLE, id="apart on purpose", marks=pytest.mark.slow),
    ],
)
def test_nodes_that_train_as_they_were_meant_to_end_well(
    scripts: Cluster, name: str, more: dict[str, str], last: str
) -> None:
    done = scripts.both(f"/tmp/{name}.py", environ=[{**node, **more} for node in NODES])

    assert [(end.code, end.text.splitlines().count(last)) for end in done] == [(0, 1)] * 2
    assert ("multinode: trained as one job of 2 ranks" in done[0].text) == (last == HALF)


def test_a_script_with_a_group_runs_alone(scripts: Cluster) -> None:
    done = scripts.nodes[0].run("--nproc", "1", "/tmp/together.py")

    assert (done.code, done.out.splitlines()[-1]) == (0, WHOLE)


@pytest.mark.slow  # ranks of two containers are above
def test_two_ranks_of_a_container_train_as_the_page_says(image: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TOGETHER.replace("/tmp/", "/workspace/output/"))
    tmp_path.chmod(0o755)
    [typed] = [shown.text for shown in PAGE.shown if shown.text.startswith("docker run")]

    with own_names("plain") as name:
        done = call(["bash", "-euc", f"cd {tmp_path}\n{name(typed).replace('IMAGE', image)}"])

    assert (done.code, done.out.count(HALF)) == (0, 2)  # in one line, where both write at once
    assert done.err.splitlines()[-1] == "multinode: trained as one job of 2 ranks, with equal weights at step 60"
