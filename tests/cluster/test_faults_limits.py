"""A container runs out of memory, shared memory, disk or time: what a user sees, and where the next start begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.nodes import Cluster
from tests.support.containers import Container, detached
from tests.support.faults import Broken
from tests.support.harness import OFFLINE, Done, call, new_name, run, wait_for

GREEDY = ("--volume", f"{Path(__file__).with_name('greedy.py')}:/opt/greedy.py:ro")
CLM = ("clm", "--save_steps", "100", "--report_to", "none")
ENDLESS = (*CLM, "--max_steps", "100000000", "--save_total_limit", "2")


def test_the_memory_limit_is_named(image: str, broken: Broken) -> None:
    with broken.happens():
        done = run(image, "/opt/greedy.py", "memory", options=(*GREEDY, "--memory", "700m"))

    broken.ended(done)


@pytest.mark.parametrize("program", ["tini", pytest.param("multinode", marks=pytest.mark.slow)])
def test_a_training_with_a_parent_gets_each_signal_once(image: str, program: str) -> None:
    """With a memory limit the entrypoint stays; below tini, which signals both, and in its place, as a pod has it."""
    front = ("tini", "-s", "-g", "--", "multinode") if program == "tini" else ("multinode",)
    words = ("--memory", "1g", *GREEDY, "--entrypoint", front[0], image, *front[1:], "/opt/greedy.py", "signals")
    with detached(*words) as container:
        assert container.said("ready")
        container.signal("RTMIN+2")
        assert container.said("signal 1\n")
        assert container.stop()
        assert container.code() == 143
        assert "signal 2\n" not in container.log


@pytest.mark.slow
def test_torchrun_names_the_memory_limit(image: str, broken: Broken) -> None:
    with broken.happens():
        done = run(image, "--nproc", "2", "/opt/greedy.py", "memory", options=(*GREEDY, "--memory", "1200m"))

    broken.ended(done)
    assert done.err.rstrip().splitlines()[-2].startswith("multinode: rank 1 on")


@pytest.mark.slow
def test_launch_names_the_memory_limit(cluster: Cluster, container: Callable[..., Container], broken: Broken) -> None:
    container("pod1", 1, "worker", options=(*GREEDY, "--memory", "700m"))
    job = ("launch", "--hosts", "pod0,pod1", "-n", "2", "--ppn", "1", "/opt/greedy.py", "memory")
    with broken.happens():
        launcher = container("pod0", 0, *job, options=GREEDY)
        cluster.started.append(launcher.follow())
        done = launcher.done(120)

    broken.ended(done)


@pytest.mark.parametrize("batch", [pytest.param("shm", marks=pytest.mark.slow), "collated"])
def test_the_size_of_shared_memory_is_named(image: str, broken: Broken, batch: str) -> None:
    with broken.happens():
        done = run(image, "/opt/greedy.py", batch, options=(*GREEDY, "--shm-size", "16m"))

    broken.ended(done)


@pytest.mark.slow  # memory is named by the same code
def test_the_limit_of_processes_is_named(image: str, broken: Broken) -> None:
    with broken.happens():
        done = run(image, "/opt/greedy.py", "processes", options=(*GREEDY, "--pids-limit", "40"))

    broken.ended(done)


@pytest.mark.slow  # memory is named by the same code
def test_the_limit_of_open_files_is_named(image: str, broken: Broken) -> None:
    with broken.happens():
        done = run(image, "/opt/greedy.py", "files", options=(*GREEDY, "--ulimit", "nofile=100"))

    broken.ended(done)


@pytest.fixture
def small_disk() -> Iterator[str]:
    """Lend a volume of 8 MB that is full but for 150 kB."""
    name = new_name()
    options = ("type=tmpfs", "device=tmpfs", "o=size=8m,mode=1777")
    words = [word for option in options for word in ("--opt", option)]
    assert call(["docker", "volume", "create", "--driver", "local", *words, name]).code == 0
    yield name
    call(["docker", "volume", "rm", "--force", name])


def fill(keeper: Container) -> None:
    """Leave 150 kB of the volume free: two checkpoints and a half."""
    assert keeper.shell("dd if=/dev/zero of=/workspace/output/filler bs=1024 count=8042 status=none").code == 0


def list_steps(keeper: Container, file: str) -> list[int]:
    """List the steps of the checkpoints in the volume that have a file."""
    listed = keeper.shell(f"ls -d /workspace/output/clm/checkpoint-*{file}").out
    return sorted(int(step) for step in re.findall(r"checkpoint-(\d+)", listed))


@pytest.mark.slow
def test_the_full_disk_is_named_and_the_next_start_goes_on(image: str, small_disk: str, broken: Broken) -> None:
    """A container stays, so that its volume in memory does."""
    options = (*OFFLINE, "--volume", f"{small_disk}:/workspace/output")
    with detached(*options, "--entrypoint", "sleep", image, "1000") as keeper:
        fill(keeper)
        with broken.happens():
            done = run(image, *CLM, "--max_steps", "1000", options=options)
        broken.ended(done)
        half, whole = list_steps(keeper, "")[-1], list_steps(keeper, "/trainer_state.json")[-1]
        assert half > whole

        assert keeper.shell("rm /workspace/output/filler").code == 0
        again = run(image, *CLM, "--max_steps", "1000", options=options)

    assert again.code == 0
    assert f"goes on from /workspace/output/clm/checkpoint-{whole}\n" in again.err


def stop_in_training(image: str, volume: Path, words: Sequence[str], ready: Callable[[str], bool]) -> Done:
    """Start a training without an end, and stop its container as soon as it is ready, by its log or its files."""
    with detached(*OFFLINE, "--volume", f"{volume}:/workspace/output", image, *words) as container:
        assert wait_for(lambda: ready(container.log), 100)
        assert container.stop()
        return container.done()


def begins(text: str) -> bool:
    """Return whether a log says that the first step begins."""
    return "rank 0 begins at step" in text


def saved(volume: Path) -> list[int]:
    """List the steps of the checkpoints that were written to their end."""
    return sorted(int(path.parent.name[11:]) for path in volume.glob("clm/checkpoint-*/trainer_state.json"))


@pytest.mark.slow
@pytest.mark.parametrize("release", ["image", "older_image"])
def test_a_stopped_training_goes_on(request: pytest.FixtureRequest, volume: Path, release: str, broken: Broken) -> None:
    image, rare = str(request.getfixturevalue(release)), (*ENDLESS, "--save_steps", "100000000")
    with broken.happens():
        done = stop_in_training(image, volume, rare, begins)

    broken.ended(done)
    assert len(saved(volume)) == 1
    assert_goes_on(image, volume, rare)


def assert_goes_on(image: str, volume: Path, words: Sequence[str]) -> None:
    """Start it again, and see it go on; it is stopped like the first."""
    last = saved(volume)[-1]

    again = stop_in_training(image, volume, words, begins)

    assert f"goes on from /workspace/output/clm/checkpoint-{last}\n" in again.text
