"""Ranks and nodes that die or come late while a task trains: what one sees, and where the training goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.containers import Container
from tests.support.faults import Broken
from tests.support.harness import OFFLINE, TRAIN_SCRIPT, Done, call, wait_for

# A step takes a fifth of a second at least, so that there is time to break something between two checkpoints.
STEPS = ("--max_steps", "48", "--save_steps", "4")
CLM = ("clm", *STEPS, "--report_to", "none", "--disable_tqdm", "true")
SCRIPT = ("train.py", *STEPS, "--output_dir", "/workspace/output/clm")
ELASTIC = {"PET_RDZV_ENDPOINT": "pod0:23456", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": "job", "PET_NNODES": "2:2"}
MASTER = {"PET_MASTER_ADDR": "pod0", "PET_NNODES": "2"}
ANEW = ("--restart", "on-failure:5")  # as a pod whose restartPolicy is OnFailure
KILL = "kill -9 $(pgrep -n -f '(run_[c]lm|[t]rain).py')"


@dataclass
class Job:
    """Pods that train one task into one directory."""

    volume: Path
    make: Callable[..., Container]
    command: tuple[str, ...] = CLM
    pods: list[Container] = field(default_factory=list)

    def start(
        self, environ: dict[str, str], *words: str, options: tuple[str, ...] = (), volume: Path | None = None
    ) -> None:
        """Start the next pod."""
        number = len(self.pods)
        mounts = (*OFFLINE, *TRAIN_SCRIPT, "--volume", f"{volume or self.volume}:/workspace/output")
        place = {} if "PET_RDZV_ENDPOINT" in environ else {"PET_NODE_RANK": str(number)}
        place |= {"STEP_SECONDS": "0.2", **environ}
        self.pods.append(
            self.make(f"pod{number}", number % 2, *self.command, *words, environ=place, options=mounts + options)
        )

    def trains(self, seconds: float = 240) -> None:
        """Wait until it has left a checkpoint."""
        checkpoint = "**/clm/checkpoint-4/trainer_state.json"
        assert wait_for(lambda: any(self.volume.glob(checkpoint)), seconds), f"no checkpoint after {seconds} s"

    def end(self) -> list[Done]:
        """Wait until every pod has ended for good; return the exit codes, and all that they have said."""
        for pod in self.pods:
            while self.inspect(pod, "{{.State.Running}}") == "true":  # as it is while it is started anew
                pod.code(300)
        return [pod.done() for pod in self.pods]

    def kill(self, number: int) -> None:
        """Kill all of a pod, as the end of its node does; Docker starts nothing again that `docker kill` has killed."""
        pod = self.pods[number]
        assert call(["kill", "-9", self.inspect(pod, "{{.State.Pid}}")]).code == 0

    @staticmethod
    def inspect(pod: Container, value: str) -> str:
        """Return what Docker knows of a pod."""
        return call(["docker", "inspect", "--format", value, pod.name]).out.strip()


@pytest.fixture
def job(container: Callable[..., Container], volume: Path) -> Job:
    """Lend a job without pods."""
    return Job(volume, container)


def steps(ends: list[Done], rank: int) -> list[tuple[str, int]]:
    """Read where a rank began and ended, in the order in which it said so; two ranks may write into one line."""
    text = "\n".join(end.out for end in ends)
    return [(word, int(step)) for word, step in re.findall(rf"rank {rank} (begins|ends) at step (\d+)", text)]


def assert_went_on(ends: list[Done]) -> None:
    """Check that each rank began, began again at a checkpoint, and came to the end."""
    for rank in (0, 1):
        first, *others, last = sorted(steps(ends, rank), key=lambda seen: (seen[0], seen[1]))
        assert (first, last) == (("begins", 0), ("ends", 48))
        assert others and all(word == "begins" and step >= 4 and step % 4 == 0 for word, step in others)


@pytest.mark.parametrize(
    "command", [pytest.param(CLM, id="task"), pytest.param(SCRIPT, id="script", marks=pytest.mark.slow)]
)
def test_a_killed_rank_is_started_again_and_goes_on(job: Job, broken: Broken, command: tuple[str, ...]) -> None:
    job.command = command
    for _ in range(2):
        job.start({**ELASTIC, "PET_MAX_RESTARTS": "1"})
    job.trains()

    with broken.happens():
        assert job.pods[1].shell(KILL).code == 0
        ends = job.end()

    broken.ended(*ends)
    assert_went_on(ends)


@pytest.mark.slow
@pytest.mark.parametrize(
    "environs",
    [
        [{**ELASTIC, "PET_RDZV_ENDPOINT": "meeting:23456"}] * 2,
        [{**MASTER, "PET_MASTER_ADDR": "meeting", "PET_NODE_RANK": str(node)} for node in range(2)],
    ],
    ids=["elastic", "master"],
)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize("command", [CLM, SCRIPT], ids=["task", "script"])
def test_new_containers_of_a_job_go_on_together_or_begin_together(
    job: Job, command: tuple[str, ...], shared: bool, environs: list[dict[str, str]]
) -> None:
    """Each has another name than the one before it in its directory, and one of two own directories has checkpoints."""
    job.command = command
    volumes = [job.volume, job.volume] if shared else [job.volume / "0", job.volume / "1"]
    for place in volumes:
        place.mkdir(exist_ok=True)
        place.chmod(0o777)
    for start in range(2):
        for place, options, environ in zip(volumes, (("--network-alias", "meeting"), ()), environs, strict=True):
            job.start({**environ, "PET_MAX_RESTARTS": "0"}, options=options, volume=place)
        if start == 0:
            job.trains()
            for number in range(2):
                job.kill(number)

    ends = job.end()[2:]

    (began, step), last = steps(ends, 0)
    assert steps(ends, 1) == [(began, step), last] == [("begins", step), ("ends", 48)]
    assert (step > 0) == shared


@pytest.mark.slow
def test_a_node_joins_late(job: Job, broken: Broken) -> None:
    elastic = {**ELASTIC, "PET_NNODES": "1:2", "PET_MAX_RESTARTS": "0"}
    job.start(elastic)
    job.trains()

    with broken.happens():
        job.start(elastic)
        ends = job.end()

    broken.ended(*ends)
    assert steps(ends, 1)[-1] == ("ends", 48)


@pytest.mark.slow
@pytest.mark.parametrize("environ", [ELASTIC, MASTER], ids=["elastic", "master"])
def test_the_node_of_rank_0_is_started_again(job: Job, broken: Broken, environ: dict[str, str]) -> None:
    for _ in range(2):
        job.start({**environ, "PET_MAX_RESTARTS": "0"}, options=ANEW)
    job.trains()

    with broken.happens():
        job.kill(0)
        ends = job.end()

    broken.ended(*ends)
    assert_went_on(ends)
