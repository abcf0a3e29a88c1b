"""A script that says nothing of checkpoints goes on from its last one, on two nodes, or all its ranks end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.containers import Container
from tests.support.harness import ROOT, call, wait_for

LINE = 'trainer.train(resume_from_checkpoint=os.environ.get("MULTINODE_RESUME") or None)'
STEPS = ("train.py", "--max_steps", "8", "--save_steps", "2", "--output_dir", "/workspace/output/run")
LATE = 6.0  # seconds for which the client of a shared file system does not show a checkpoint
Start = Callable[..., list[Container]]
# How both pods are told of each other.
STATIC = {"PET_MASTER_ADDR": "pod0", "PET_NNODES": "2"}
OPERATOR = {"MASTER_ADDR": "pod0", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Write the script of a user who has read nothing of checkpoints."""
    text = (ROOT / "tests/data/offline/train.py").read_text()
    assert LINE in text
    (tmp_path / "train.py").write_text(text.replace(LINE, "trainer.train()"))
    return tmp_path / "train.py"


@pytest.fixture
def pods(container: Callable[..., Container], script: Path) -> Start:
    """Start the script on two nodes, each with its view of the results."""

    def start(views: list[Path], told: dict[str, str] = STATIC, **environ: str) -> list[Container]:
        started = []
        for number, view in enumerate(views):
            place = {"RANK": str(number)} if "WORLD_SIZE" in told else {"PET_NODE_RANK": str(number)}
            mounts = ("--volume", f"{script}:/workspace/train.py:ro", "--volume", f"{view}:/workspace/output")
            made = container(f"pod{number}", number, *STEPS, environ={**told, **place, **environ}, options=mounts)
            started.append(made)
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


def end(pods: list[Container]) -> list[str]:
    """Wait for the end of both, remove them, and return what they said."""
    for pod in pods:
        pod.code(120)
    said = [pod.log for pod in pods]
    for pod in pods:
        assert call(["docker", "rm", "--force", pod.name]).code == 0  # its name is free for the next start
    return said


@pytest.mark.parametrize("told", [STATIC, pytest.param(OPERATOR, marks=pytest.mark.slow)], ids=["torchrun", "operator"])
def test_the_same_command_goes_on(pods: Start, views: list[Path], told: dict[str, str]) -> None:
    """Rank 0 dies after step 5."""
    shared = [views[0], views[0]]
    assert any("rank 0 begins at step 0" in said for said in end(pods(shared, told, DIE_AT="5")))

    said = end(pods(shared, told))

    for rank in (0, 1):
        assert f"rank {rank} begins at step 4" in "".join(said) and f"rank {rank} ends at step 8" in "".join(said)
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
