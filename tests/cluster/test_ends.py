"""How two nodes end when a rank of one of them ends in its own way: with an error on both wherever one has failed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.nodes import Cluster, Told, elastic, fixed
from tests.support.containers import Container
from tests.support.harness import wait_for

SCRIPT = ("--volume", f"{Path(__file__).with_name('ends.py')}:/workspace/ends.py:ro")
BOUND, OBEYS = 30, 10  # seconds until all nodes have ended, and until one has that was told to
TYPED = "torchrun --nnodes 2 --nproc_per_node 1 --node_rank NUMBER --master_addr pod0 ends.py"
HOWS = {
    "exception": "rank 1 on node 1 (pod1) failed first, with code 1",
    "exit": "rank 1 on node 1 (pod1) failed first, with code 3",
    "kill": "rank 1 on node 1 (pod1) failed first, with signal 9 (SIGKILL)",
    "leave": "rank 0",  # which waits for it, or has lost it
    "wait": "node 1 (pod1) was told to end, by signal 15",
    "both": "was told to end, by signal 15",
}
QUICK = {("kill", "in"), ("leave", "before"), ("exception", "after"), ("wait", "after")}
CASES = [
    pytest.param(how, when, marks=() if (how, when) in QUICK else pytest.mark.slow)
    for how in HOWS
    for when in ("before", "in", "after")
    if (how, when) != ("leave", "after")  # which is a good end
]
Start = Callable[..., list[Container]]


@pytest.fixture(scope="session", params=["gloo", pytest.param("oneCCL", marks=pytest.mark.slow)])
def image(request: pytest.FixtureRequest, image: str) -> str:
    """Take the default image, and in slow tests one of torch 2.4, where there is one with oneCCL."""
    return image if request.param == "gloo" else str(request.getfixturevalue("ccl_image"))


@pytest.fixture
def pods(container: Callable[..., Container]) -> Start:
    """Start a script on two nodes."""

    def start(how: str, when: str, told: Told = fixed, words: str = "ends.py", **more: str) -> list[Container]:
        started = []
        for number in (0, 1):
            command = (*words.replace("NUMBER", str(number)).split(), how, when)
            started.append(container(f"pod{number}", number, *command, environ=told(number, **more), options=SCRIPT))
        return started

    return start


def end(pods: list[Container], how: str) -> list[int]:
    """Wait until the rank is there, tell nodes to end where they wait for it, and return their codes in time."""
    assert wait_for(lambda: any("is there" in pod.log for pod in pods), 120)
    began = time.monotonic()
    for pod in {"wait": pods[1:], "both": pods}.get(how, []):
        pod.signal("TERM")
    codes = [pod.code(BOUND + 30) for pod in pods]
    assert time.monotonic() - began < BOUND
    return codes


@pytest.mark.parametrize(("how", "when"), CASES)
def test_a_job_that_failed_on_one_node_has_failed_on_both(pods: Start, how: str, when: str) -> None:
    nodes = pods(how, when)

    assert all(end(nodes, how))

    for node in nodes:
        last = node.log.splitlines()[-1]
        assert "multinode: the job has failed: " in last and HOWS[how] in last
        assert "trained as one job" not in node.log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "when"), [("exception", "after"), ("kill", "in"), ("exit", "before"), ("wait", "after")]
)
@pytest.mark.parametrize(
    ("told", "words"), [(elastic, "ends.py"), (lambda _: {}, TYPED)], ids=["elastic", "typed torchrun"]
)
def test_it_is_so_whatever_starts_the_ranks(pods: Start, told: Told, words: str, how: str, when: str) -> None:
    nodes = pods(how, when, told, words)
    assert all(end(nodes, how))
    assert all("multinode: the job has failed: " in node.log.splitlines()[-1] for node in nodes)


@pytest.mark.slow
def test_a_node_whose_ranks_have_ended_well_obeys_while_it_waits_for_the_others(pods: Start) -> None:
    nodes = pods("wait", "after")
    assert wait_for(lambda: "is there" in nodes[1].log, 120)
    began = time.monotonic()
    nodes[0].signal("TERM")
    assert nodes[0].code(60) and time.monotonic() - began < OBEYS
    assert nodes[1].code(60) and time.monotonic() - began < BOUND


@pytest.mark.slow
@pytest.mark.parametrize("told", [fixed, elastic])
def test_what_rank_0_says_of_its_job_comes_once_all_have_ended_well(pods: Start, told: Told) -> None:
    nodes = pods("well", "after", told)
    assert [node.code(120) for node in nodes] == [0, 0]
    said = [re.findall(r"(?m)^multinode: trained as one job of 2 ranks.*$", node.log) for node in nodes]
    assert sorted(map(len, said)) == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("told", [fixed, elastic])
def test_ranks_that_have_ended_well_start_again_with_those_of_another_node(pods: Start, told: Told) -> None:
    """Rank 1 fails once, after the last collective."""
    nodes = pods("once", "after", told, PET_MAX_RESTARTS="2")
    assert [node.code(180) for node in nodes] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "when"), [("exception", "after"), ("kill", "in"), ("exit", "before"), ("well", "after")]
)
def test_launch_ends_as_its_ranks(cluster: Cluster, how: str, when: str) -> None:
    for node in cluster.nodes:
        node.shell(f"cat > /tmp/ends.py <<'END'\n{SCRIPT_TEXT}\nEND")
    cluster.start(1, "worker")
    done = cluster.nodes[0].run(*cluster.launch("/tmp/ends.py", how, when), seconds=120)
    assert bool(done.code) is (how != "well")
    assert ("trained as one job of 2 ranks" in done.text.splitlines()[-1]) is (how == "well")


SCRIPT_TEXT = Path(__file__).with_name("ends.py").read_text()
