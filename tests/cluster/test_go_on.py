"""A script that says nothing of checkpoints goes on from its last one, by any launcher, or all its ranks end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cluster.nodes import PLAIN, SHARED, Cluster, Told, fixed, type_mpirun
from tests.support.containers import Container
from tests.support.harness import call, wait_for

STEPS = ("train.py", "--max_steps", "8", "--save_steps", "2", "--output_dir", "/workspace/output/run")
LATE = 6.0  # seconds for which the client of a shared file system does not show a checkpoint
Start = Callable[..., list[Container]]


def by_operator(number: int, **more: str) -> dict[str, str]:
    """Return the variables of one of two pods that an operator tells of each other."""
    return {"MASTER_ADDR": "pod0", "MASTER_PORT": "29500", "WORLD_SIZE": "2", "RANK": str(number), **more}


@pytest.fixture
def pods(container: Callable[..., Container], shared: Path) -> Start:
    """Start the script on two nodes, each with its view of the results."""

    def start(views: list[Path], told: Told = fixed, **environ: str) -> list[Container]:
        started = []
        for number, view in enumerate(views):
            mounts = ("--volume", f"{shared}/train.py:/workspace/train.py:ro", "--volume", f"{view}:/workspace/output")
            pod = container(f"pod{number}", number, *STEPS, environ=told(number, **environ), options=mounts)
            started.append(pod)
        return started

    return start


@pytest.fixture
def views(tmp_path: Path) -> list[Path]:
    """Make two directories that any user may write."""
    places = [tmp_path / "one", tmp_path / "other"]
    for place in places:
        place.mkdir()
        place.chmod(0o777)
    return places


def ended(said: str) -> bool:
    """Return whether both ranks have gone on after step 4, to the end."""
    return all(f"rank {rank} {end}" in said for rank in (0, 1) for end in ("begins at step 4", "ends at step 8"))


def end(pods: list[Container]) -> list[str]:
    """Wait for the end of both, remove them, and return what they said."""
    for pod in pods:
        pod.code(120)
    said = [pod.log for pod in pods]
    for pod in pods:
        assert call(["docker", "rm", "--force", pod.name]).code == 0  # its name is free for the next start
    return said


@pytest.mark.slow  # two ranks go on in image/test_go_on.py
@pytest.mark.parametrize("told", [fixed, by_operator])
def test_the_same_command_goes_on(pods: Start, views: list[Path], told: Told) -> None:
    """Rank 0 dies after step 5."""
    shared = [views[0], views[0]]
    assert any("rank 0 begins at step 0" in said for said in end(pods(shared, told, DIE_AT="5")))

    said = end(pods(shared, told))

    assert ended("".join(said))
    assert "".join(said).count("goes on from /workspace/output/run/checkpoint-4") == 1


@pytest.mark.slow
def test_a_node_that_is_shown_the_checkpoint_late_goes_on_too(pods: Start, views: list[Path]) -> None:
    end(pods([views[0], views[0]], DIE_AT="5"))

    nodes = pods(views)
    assert wait_for(lambda: "rank 1 of 2" in nodes[1].log, 60)
    time.sleep(LATE)
    assert call(["cp", "--archive", f"{views[0]}/run", str(views[1])]).code == 0  # with its owner
    said = end(nodes)

    assert all(f"rank {rank} begins at step 4" in said[rank] for rank in (0, 1))


@pytest.mark.slow
def test_where_one_node_never_sees_it_all_end(pods: Start, views: list[Path]) -> None:
    end(pods([views[0], views[0]], DIE_AT="5"))

    nodes = pods(views)
    assert all(node.code(120) for node in nodes)

    said = "".join(node.log for node in nodes)
    assert "checkpoint-4, not seen by rank 1" in said and "MULTINODE_RESUME=no" in said
    assert "begins at step 0\n" not in said and "begins at step 4" not in said


def launch(cluster: Cluster, words: Sequence[str], environ: dict[str, str]) -> str:
    """Start it over ssh by `launch`."""
    cluster.start(1, "worker")
    return cluster.nodes[0].run(*cluster.launch(*words), environ=environ).text


def mpirun(cluster: Cluster, words: Sequence[str], environ: dict[str, str]) -> str:
    """Type mpirun in a shell."""
    return type_mpirun(cluster, "export MASTER_ADDR=$address", " ".join(words), environ).text


def both(cluster: Cluster, words: Sequence[str], environ: dict[str, str]) -> str:
    """Start it on both nodes; `K` in a word is the number of the node."""
    children = [
        cluster.start(number, *(word.replace("K", str(number)) for word in words), environ=environ) for number in (0, 1)
    ]
    return "".join(child.finish(150).text for child in children)


def typed(line: str) -> Callable[[Cluster, Sequence[str], dict[str, str]], str]:
    """Return a start by another launcher that is typed on both nodes."""
    return lambda cluster, words, environ: both(cluster, [*line.split(), *words], environ)


def elastic(cluster: Cluster, words: Sequence[str], environ: dict[str, str]) -> str:
    """Start it as the pods of an elastic job."""
    return both(cluster, words, {**cluster.elastic, **environ})


TORCHRUN = "torchrun --nnodes 2 --node_rank K --master_addr node0 --master_port 29511"
WAYS: dict[str, Callable[[Cluster, Sequence[str], dict[str, str]], str]] = {
    "launch": launch,
    "mpirun": mpirun,
    "elastic": elastic,
    "torchrun": typed(TORCHRUN),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_any_launcher_goes_on(cluster: Cluster, way: str) -> None:
    """Slurm and other MPIs have this test beside theirs; on a CPU accelerate starts several by mpirun alone."""
    words = (*PLAIN, f"{SHARED}/{way}")
    assert "rank 0 begins at step 0" in WAYS[way](cluster, words, {"DIE_AT": "5"})

    assert ended(WAYS[way](cluster, words, {}))
