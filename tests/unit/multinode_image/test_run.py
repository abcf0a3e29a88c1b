"""What becomes of a process once its plan is made."""

from __future__ import annotations

from unittest import mock

import pytest

from multinode_image import run
from multinode_image.tasks.command import PLAIN, SMOKE, Command, Kind
from multinode_image.world.model import ALONE, MPI, TORCHRUN, World
from tests.support.starts import place

GB = 1 << 30
LIMITED = {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": f"{GB}\n"}


def train(job: Command, argv: list[str], environ: dict[str, str], world: World, files: dict[str, str]) -> str:
    """Return what starts a training: `watch`, `supervise N` or `exec`."""
    plan = mock.Mock(world=world, situation=place(world, job), facts=mock.Mock(files=files.get))
    with (
        mock.patch.object(run, "find_torchrun", lambda _: "/usr/local/bin/torchrun"),
        mock.patch.object(run, "execute", lambda program, words, _: f"exec {program}"),
        mock.patch.object(run, "watch_training", lambda words, *_: f"watch {words[0]}"),
        mock.patch("multinode_image.run.supervise", lambda words, _, rank: f"supervise {rank}"),
    ):
        return str(run.become_or_watch(argv, environ, plan))


@pytest.mark.parametrize(
    ("kind", "files", "argv", "started"),
    [
        (SMOKE, LIMITED, ["python3", "smoke.py"], "watch python3"),
        (SMOKE, LIMITED, [TORCHRUN, "smoke.py"], "watch /usr/local/bin/torchrun"),
        (SMOKE, {}, ["python3", "smoke.py"], "exec python3"),
        (SMOKE, {}, [TORCHRUN, "smoke.py"], "exec /usr/local/bin/torchrun"),
        (PLAIN, LIMITED, ["python3", "smoke.py"], "exec python3"),
    ],
)
def test_a_training_that_may_reach_its_memory_limit_is_watched(
    kind: Kind, files: dict[str, str], argv: list[str], started: str
) -> None:
    """Torchrun's agent as well: the kernel may kill it before it has ranks."""
    assert train(Command(kind, "smoke", []), argv, {}, World(ALONE, ""), files) == started


@pytest.mark.parametrize(
    ("environ", "rank", "started"),
    [
        ({"MULTINODE_SUPERVISED": "1", "PMI_RANK": "1"}, None, "supervise 1"),  # an agent, whose ranks come later
        ({"MULTINODE_SUPERVISED": "1", "PMI_RANK": "1"}, 3, "supervise 3"),
        ({"MULTINODE_SUPERVISED": "1"}, None, "exec /usr/local/bin/torchrun"),
        ({"PMI_RANK": "1"}, 1, "exec /usr/local/bin/torchrun"),
    ],
)
def test_a_torchrun_that_launch_started_is_supervised(environ: dict[str, str], rank: int | None, started: str) -> None:
    world = World(MPI, "", rank=rank)

    assert train(Command(PLAIN, TORCHRUN, []), [TORCHRUN, "x.py"], environ, world, {}) == started
