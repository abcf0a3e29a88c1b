"""What becomes of a process once a command is decided."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from entrypoint import carry_out
from entrypoint.carry_out import add_checkpoint, list_kills, train
from entrypoint.runs.rank import RESUME
from entrypoint.runs.record import OWN, as_text, describe
from entrypoint.tasks.job import PLAIN, SMOKE, Job
from entrypoint.world.model import ALONE, MPI, TORCHRUN, World
from tests.support.runs import checkpoint


@pytest.mark.parametrize(
    ("kind", "limit", "argv", "watched"),
    [
        (SMOKE, 1 << 30, ["python3", "smoke.py"], ["python3", "smoke.py"]),
        (SMOKE, 1 << 30, [TORCHRUN, "smoke.py"], ["/usr/local/bin/torchrun", "smoke.py"]),
        (SMOKE, None, ["python3", "smoke.py"], None),
        (SMOKE, None, [TORCHRUN, "smoke.py"], None),
        (PLAIN, 1 << 30, ["python3", "smoke.py"], None),
    ],
)
def test_a_training_that_may_reach_its_limit_is_watched(
    monkeypatch: pytest.MonkeyPatch, kind: str, limit: int | None, argv: list[str], watched: list[str] | None
) -> None:
    """Torchrun's agent as well: the kernel may kill it before it has ranks."""
    ran: list[list[str]] = []

    def watch(argv: list[str], *_: object) -> int:
        ran.append(argv)
        return 7

    monkeypatch.setattr("entrypoint.machine.limits.read_memory_limit", lambda _: limit)
    monkeypatch.setattr(carry_out, "find_torchrun", lambda _: "/usr/local/bin/torchrun")
    monkeypatch.setattr(carry_out, "execute", lambda *_: 0)
    monkeypatch.setattr("entrypoint.processes.child.watch_training", watch)
    assert train(Job(kind, "smoke", []), argv, {}, None) == (7 if watched else 0)
    assert ran == ([watched] if watched else [])


@pytest.mark.parametrize(
    ("environ", "rank", "supervised"),
    [
        ({"MULTINODE_SUPERVISED": "1", "PMI_RANK": "1"}, None, 1),  # an agent, whose ranks are numbered later
        ({"MULTINODE_SUPERVISED": "1", "PMI_RANK": "1"}, 3, 3),
        ({"MULTINODE_SUPERVISED": "1"}, None, None),
        ({"PMI_RANK": "1"}, 1, None),
    ],
)
def test_a_torchrun_that_launch_started_is_supervised(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], rank: int | None, supervised: int | None
) -> None:
    ran: list[tuple[list[str], int]] = []

    def supervise(argv: list[str], _: object, rank: int) -> int:
        ran.append((argv, rank))
        return 7

    monkeypatch.setattr(carry_out, "find_torchrun", lambda _: "/usr/local/bin/torchrun")
    monkeypatch.setattr(carry_out, "execute", lambda *_: 0)
    monkeypatch.setattr("entrypoint.mpi.rank.supervise", supervise)

    assert train(Job(PLAIN, TORCHRUN, []), [TORCHRUN, "x.py"], environ, rank) == (0 if supervised is None else 7)

    assert ran == ([] if supervised is None else [(["/usr/local/bin/torchrun", "x.py"], supervised)])


@pytest.mark.parametrize(
    ("starts", "kills", "left"), [(True, 2, {"MULTINODE_KILLS": "2 0"}), (True, 0, {}), (False, 2, {})]
)
def test_a_training_knows_how_many_were_killed_before(starts: bool, kills: int, left: dict[str, str]) -> None:
    files = {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.events": f"oom_kill {kills}\n"}
    assert list_kills(mock.Mock(starts=starts), files.get) == left


@pytest.mark.parametrize(
    ("world", "looks", "goes_on"),
    [
        (World(MPI, "", rank=0, size=2), True, True),
        (World(MPI, "", rank=0, size=2), False, False),  # who begins anew looks for nothing
        (World(TORCHRUN, "", (2, 2), 0), True, False),  # its ranks do so themselves
        (World(ALONE, ""), False, False),
    ],
)
def test_a_rank_looks_for_the_last_checkpoint_right_before_its_training(
    tmp_path: Path, world: World, looks: bool, goes_on: bool
) -> None:
    path = checkpoint(tmp_path, 4)
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "run.json").write_text(as_text(describe("qa", {}, "/none")))
    prepared = mock.Mock(environ={RESUME: str(tmp_path)} if looks else {})
    argv = add_checkpoint(["python3", "run_qa.py"], mock.Mock(world=world, prepared=prepared))
    assert argv == ["python3", "run_qa.py", *(["--resume_from_checkpoint", str(path)] if goes_on else [])]
