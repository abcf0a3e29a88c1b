"""A node of a job is taken away, as on a spot market: it gets SIGTERM and half a minute, the others hear nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.containers import Container, detached, network
from tests.support.faults import Broken
from tests.support.harness import OFFLINE, TRAIN_SCRIPT, env_options, wait_for

# Nothing is saved before the end; the batches of a rank come from processes of their own.
RARE = ("--max_steps", "100000000", "--save_steps", "100000000")
COMMANDS = {
    "script": ("train.py", *RARE, "--output_dir", "/workspace/output/clm", "--dataloader_num_workers", "1"),
    "task": ("clm", *RARE, "--report_to", "none", "--dataloader_num_workers", "1"),
}


@contextmanager
def pods(image: str, volume: Path, command: Sequence[str]) -> Iterator[list[Container]]:
    """Start two containers with a rank each, which train as one job."""
    mounts = (*OFFLINE, *TRAIN_SCRIPT, "--volume", f"{volume}:/workspace/output")
    with ExitStack() as stack:
        net = stack.enter_context(network())
        started = []
        for number in (0, 1):
            meeting = {"PET_NNODES": "2", "PET_NODE_RANK": str(number), "PET_MASTER_ADDR": "pod0"}
            words = ("--network-alias", f"pod{number}", *env_options({**meeting, "STEP_SECONDS": "0.1"}), *mounts)
            name = f"{net}-pod{number}"
            started.append(stack.enter_context(detached(*words, image, *command, name=name, network=net)))
        yield started


def read_steps(pair: Sequence[Container]) -> dict[str, str]:
    """Return at which step each rank has begun."""
    begun: dict[str, str] = {}
    for pod in pair:
        begun |= dict(re.findall(r"rank (\d) begins at step (\d+)", pod.log))
    return begun


@pytest.mark.slow
@pytest.mark.parametrize("form", COMMANDS)
def test_a_node_that_is_taken_away_costs_no_step(image: str, volume: Path, form: str, broken: Broken) -> None:
    with pods(image, volume, COMMANDS[form]) as pair:
        assert wait_for(lambda: read_steps(pair) == {"0": "0", "1": "0"}, 90)
        with broken.happens():
            assert pair[1].stop()  # before it would have been killed
            ends = [pod.done(60) for pod in pair]
        broken.ended(*ends)

    [step] = [path.parent.name[11:] for path in volume.glob("clm/checkpoint-*/trainer_state.json")]
    assert f"saved at step {step};" in ends[0].text
    with pods(image, volume, COMMANDS[form]) as pair:
        assert wait_for(lambda: read_steps(pair) == {"0": step, "1": step}, 90)


@pytest.mark.slow
def test_ranks_of_one_container_save_before_any_ends(image: str, volume: Path) -> None:
    """Torchrun ends all ranks of a node as soon as one has ended."""
    words = (*TRAIN_SCRIPT, "--volume", f"{volume}:/workspace/output", "--env", "STEP_SECONDS=0.1")
    with detached(*words, image, "--nproc", "2", *COMMANDS["script"]) as container:
        assert wait_for(lambda: len(read_steps([container])) == 2, 90)
        assert container.stop()
        assert container.code() == 1

    [checkpoint] = volume.glob("clm/checkpoint-*")
    assert {"rng_state_0.pth", "rng_state_1.pth", "trainer_state.json"} <= {path.name for path in checkpoint.iterdir()}


@pytest.mark.slow
def test_a_training_that_saves_nothing_ends_at_once(image: str, volume: Path) -> None:
    words = (*OFFLINE, "--volume", f"{volume}:/workspace/output")
    endless = ("clm", "--max_steps", "100000000", "--save_strategy", "no", "--report_to", "none")
    with detached(*words, image, *endless) as container:
        assert wait_for(lambda: "begins at step" in container.log, 90)
        assert container.stop()
        assert container.code() == 143

    assert [*volume.glob("clm/checkpoint-*")] == []
