"""A run and its directory, before it starts."""

from __future__ import annotations

import contextlib
import errno
import itertools
from pathlib import Path
from typing import Any

import pytest

from entrypoint.errors import Refusal
from entrypoint.runs import output
from entrypoint.runs.lease import Clock, read_lease, renew
from entrypoint.runs.output import Role, Run, check_run, make_run, name_owner, open_run
from entrypoint.runs.record import OWN, find_last, read_record
from entrypoint.world.model import ALONE, MPI, SLURM, TORCHRUN, World
from tests.support.runs import checkpoint

POD = World(TORCHRUN, "", (2, 2), 0, port=29500, job="qa")
ELASTIC = World(TORCHRUN, "", (1, 4), None, job="qa")
ALONE_HERE = World(ALONE, "", job="qa")
RANK = World(MPI, "", (2, 2), None, 1, 1, 0, 2, job="7")
CLOCK = Clock(lambda: 0, lambda _: pytest.fail("waits"))


def restart(run: Run) -> None:
    """Open the directory of a run whose lease an earlier start may have left: watches end at once."""
    seconds = itertools.count(0, 4)
    open_run(run, Clock(lambda: next(seconds), lambda _: None), lambda _: None)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Start no process that renews a lease."""
    started: list[str] = []

    def start(path: str, owner: str, host: str) -> int:
        started.append(owner)
        return 77

    monkeypatch.setattr(output, "start_keeper", start)
    return started


def run(directory: Path, world: World = POD, **more: Any) -> Run:
    made = make_run(str(directory), "qa", {"seed": "1"}, world, {"MASTER_ADDR": "job-master-0"})
    return made._replace(**{"host": "a", **more})


@pytest.mark.parametrize(
    ("world", "environ", "owner"),
    [
        (POD, {"PET_MASTER_ADDR": "m", "MASTER_ADDR": "localhost"}, "m:29500 qa"),
        (POD._replace(port=29501), {"MASTER_ADDR": "m"}, "m:29501 qa"),
        (ELASTIC, {"PET_RDZV_ENDPOINT": "w:1"}, "w:1 qa"),
        (World(SLURM, "", rank=0, size=1, job="5.0"), {}, "slurm 5.0"),
    ],
)
def test_a_job_has_a_name(world: World, environ: dict[str, str], owner: str) -> None:
    assert name_owner(world, environ, "host") == owner


def test_a_job_without_a_name_is_like_no_other() -> None:
    first, second = (name_owner(World(ALONE, ""), {}, "host") for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    ("world", "role"),
    [
        (World(ALONE, ""), Role.LEADER),
        (POD, Role.LEADER),
        (POD._replace(node_rank=1), Role.FOLLOWER),
        (ELASTIC, Role.CANDIDATE),
        (RANK, Role.ASKING),
        (RANK._replace(rank=0), Role.LEADER),
        (RANK._replace(job=""), Role.FOLLOWER),
    ],
)
def test_the_node_of_rank_0_leads(tmp_path: Path, world: World, role: Role) -> None:
    assert run(tmp_path, world).role is role


@pytest.mark.parametrize("world", [RANK._replace(rank=0), RANK])
def test_all_ranks_of_a_launcher_are_refused_what_rank_0_is(tmp_path: Path, kept: list[str], world: World) -> None:
    open_run(run(tmp_path, owner="other"), CLOCK, pytest.fail)
    checkpoint(tmp_path, 500)
    with pytest.raises(Refusal, match="holds another run"):
        check_run(run(tmp_path, world, given={"seed": "2"}))

    def sleep(seconds: float) -> None:
        renew(f"{tmp_path}/{OWN}/lease.json", "other", "b")

    with pytest.raises(Refusal, match="another job writes"):
        open_run(run(tmp_path, world), Clock(itertools.count().__next__, sleep), lambda _: None)


def test_the_first_start_leaves_a_record_and_takes_the_lease(tmp_path: Path, kept: list[str]) -> None:
    made = run(tmp_path)
    assert open_run(made, CLOCK, pytest.fail) == {"MULTINODE_KEEPER": "77"}

    record, held = read_record(str(tmp_path)), read_lease(f"{tmp_path}/{OWN}/lease.json")
    assert record is not None and (record.task, record.begins_at, record.before) == ("qa", "", [])
    assert held is not None and held.owner == made.owner and kept == [made.owner]


def test_another_node_does_nothing_there(tmp_path: Path, kept: list[str]) -> None:
    assert open_run(run(tmp_path, POD._replace(node_rank=1)), CLOCK, pytest.fail) == {}
    assert not (tmp_path / OWN).exists() and kept == []


def test_who_begins_anew_uses_no_checkpoint(tmp_path: Path, kept: list[str]) -> None:
    restart(run(tmp_path))
    checkpoint(tmp_path, 500)
    restart(run(tmp_path, anew=True))
    record = read_record(str(tmp_path))
    assert record is not None and [each.step for each in record.before] == [500]
    assert find_last(str(tmp_path)) == (None, "")


def test_another_run_is_refused_and_leaves_no_lease(tmp_path: Path, kept: list[str]) -> None:
    restart(run(tmp_path))
    checkpoint(tmp_path, 500)
    other = run(tmp_path)._replace(given={"seed": "2"})
    with pytest.raises(Refusal, match="holds another run"):
        restart(other)
    assert read_lease(f"{tmp_path}/{OWN}/lease.json") is None


def test_a_directory_of_another_user_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *more: object, **words: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(output, "take", refuse)
    with pytest.raises(Refusal, match="belongs to another user") as caught:
        open_run(run(tmp_path), CLOCK, pytest.fail)
    open_run(run(tmp_path, POD._replace(node_rank=1)), CLOCK, pytest.fail)
    assert "chmod -R g+w" in caught.value.remedy and caught.value.code == 2


@pytest.mark.parametrize(("world", "refused"), [(POD, True), (ELASTIC, False)])
def test_a_running_job_of_the_same_name_keeps_its_directory(
    tmp_path: Path, kept: list[str], world: World, refused: bool
) -> None:
    """Nodes of an elastic job have one lease: one that comes later finds it renewed."""
    made, path = run(tmp_path, world), f"{tmp_path}/{OWN}/lease.json"
    open_run(made, CLOCK, pytest.fail)

    def sleep(seconds: float) -> None:
        renew(path, made.owner, "b")

    with pytest.raises(Refusal, match="another job writes") if refused else contextlib.nullcontext():
        open_run(made, Clock(itertools.count().__next__, sleep), lambda _: None)


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, Refusal), (errno.EDQUOT, Refusal), (errno.EIO, OSError)])
def test_a_disk_and_a_quota_that_are_full_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    def refuse(path: str, *more: object, **words: object) -> None:
        raise OSError(number, "no", path)

    monkeypatch.setattr(output, "take", refuse)
    with pytest.raises(kind) as caught:
        open_run(run(tmp_path), CLOCK, pytest.fail)
    assert ("no space is left in the directory for results" in str(caught.value)) == (kind is Refusal)
    if isinstance(caught.value, Refusal):
        assert caught.value.code == 1 and "half-written" in caught.value.remedy
        assert "--save_total_limit" not in caught.value.remedy  # nothing was written yet


def test_a_start_without_room_for_its_record_leaves_no_lease(
    tmp_path: Path, kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, text: str) -> None:
        raise OSError(errno.ENOSPC, "no", path)

    monkeypatch.setattr(output, "write_whole", refuse)
    with pytest.raises(Refusal, match="no space is left"):
        open_run(run(tmp_path), CLOCK, pytest.fail)
    assert kept == [] and read_lease(f"{tmp_path}/{OWN}/lease.json") is None


def test_a_run_that_left_nothing_makes_room_for_another(tmp_path: Path, kept: list[str]) -> None:
    restart(run(tmp_path, owner="job"))
    restart(run(tmp_path, owner="job", given={"seed": "2"}))
    record = read_record(str(tmp_path))
    assert record is not None and record.arguments == {"seed": "2"}
