"""A run and its directory, before it starts."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from entrypoint.errors import Refusal
from entrypoint.launchers.world import ALONE, MPI, SLURM, TORCHRUN, World
from entrypoint.runs import output
from entrypoint.runs.lease import Clock, read_lease
from entrypoint.runs.output import Run, find_resume, make_run, name_owner, open_run
from entrypoint.runs.record import OWN, read_record
from tests.support.runs import checkpoint

POD = World(TORCHRUN, "", (2, 2), 0, port=29500, job="qa")
ELASTIC = World(TORCHRUN, "", (1, 4), None, job="qa")
ALONE_HERE = World(ALONE, "", job="qa")
RANK = World(MPI, "", (2, 2), None, 1, 1, 0, 2, job="7")
CLOCK = Clock(lambda: 0, lambda _: pytest.fail("waits"))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Start no process that renews a lease."""
    started: list[str] = []

    def keep(path: str, owner: str, host: str) -> int:
        started.append(owner)
        return 77

    monkeypatch.setattr(output, "keep", keep)
    return started


def run(directory: Path, world: World = POD, **more: Any) -> Run:
    made = make_run(str(directory), "qa", {"seed": "1"}, world, {"MASTER_ADDR": "job-master-0"})
    return made._replace(host="a", **more)


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
    ("world", "leads", "joins"),
    [(World(ALONE, ""), True, False), (POD, True, False), (POD._replace(node_rank=1), False, False),
     (ELASTIC, True, True), (RANK, False, False), (RANK._replace(rank=0), True, False)],
)  # fmt: skip
def test_the_node_of_rank_0_leads(tmp_path: Path, world: World, leads: bool, joins: bool) -> None:
    made = run(tmp_path, world)
    assert (made.leads, made.joins) == (leads, joins)


def test_the_first_start_leaves_a_record_and_takes_the_lease(tmp_path: Path, kept: list[str]) -> None:
    made = run(tmp_path)
    assert open_run(made, CLOCK, pytest.fail) == {"MULTINODE_KEEPER": "77"}

    record, held = read_record(str(tmp_path)), read_lease(f"{tmp_path}/{OWN}/lease.json")
    assert record is not None and (record.task, record.nodes, record.before) == ("qa", 2, [])
    assert held is not None and held.owner == made.owner and kept == [made.owner]
    assert [each.name for each in (tmp_path / OWN / "nodes").iterdir()] == ["a"]


def test_another_node_signs_and_does_no_more(tmp_path: Path, kept: list[str]) -> None:
    assert open_run(run(tmp_path, POD._replace(node_rank=1)), CLOCK, pytest.fail) == {}
    assert sorted(each.name for each in (tmp_path / OWN).iterdir()) == ["nodes"] and kept == []


def test_a_restarted_job_goes_on(tmp_path: Path, kept: list[str]) -> None:
    for node in (0, 1):
        open_run(run(tmp_path, POD._replace(node_rank=node))._replace(host=f"n{node}"), CLOCK, pytest.fail)
    checkpoint(tmp_path, 500)

    for world in (POD, POD._replace(node_rank=1)):
        made = run(tmp_path, world)
        open_run(made, CLOCK, pytest.fail)
        last, _ = find_resume(made)
        assert last is not None and last.name == "checkpoint-500"


def test_who_begins_anew_uses_no_checkpoint(tmp_path: Path, kept: list[str]) -> None:
    open_run(run(tmp_path), CLOCK, pytest.fail)
    checkpoint(tmp_path, 500)
    made = run(tmp_path, anew=True)
    open_run(made, CLOCK, pytest.fail)
    record = read_record(str(tmp_path))
    assert record is not None and [each.step for each in record.before] == [500]
    assert find_resume(made) == (None, "") == find_resume(made._replace(anew=False))


def test_another_run_is_refused_and_leaves_no_lease(tmp_path: Path, kept: list[str]) -> None:
    open_run(run(tmp_path), CLOCK, pytest.fail)
    checkpoint(tmp_path, 500)
    other = run(tmp_path)._replace(given={"seed": "2"})
    with pytest.raises(Refusal, match="holds another run"):
        open_run(other, CLOCK, pytest.fail)
    assert read_lease(f"{tmp_path}/{OWN}/lease.json") is None


def test_a_directory_of_another_user_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, text: str) -> bool:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(output, "create", refuse)
    with pytest.raises(Refusal, match="belongs to another user") as caught:
        open_run(run(tmp_path), CLOCK, pytest.fail)
    open_run(run(tmp_path, POD._replace(node_rank=1)), CLOCK, pytest.fail)
    assert "chmod -R g+w" in caught.value.remedy and caught.value.code == 2


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, Refusal), (errno.EDQUOT, Refusal), (errno.EIO, OSError)])
def test_a_disk_and_a_quota_that_are_full_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    def refuse(path: str, text: str) -> bool:
        raise OSError(number, "no", path)

    monkeypatch.setattr(output, "create", refuse)
    with pytest.raises(kind) as caught:
        open_run(run(tmp_path), CLOCK, pytest.fail)
    assert ("no space is left in the directory for results" in str(caught.value)) == (kind is Refusal)


@pytest.mark.parametrize(
    ("first", "then", "nodes"), [(ALONE_HERE, POD, 2), (POD, ALONE_HERE, 2), (ALONE_HERE, ALONE_HERE, 1)]
)
def test_a_run_that_grows_beyond_its_node_begins_a_new_record(
    tmp_path: Path, kept: list[str], first: World, then: World, nodes: int
) -> None:
    """Its checkpoints were on one node, and others need not see them."""
    open_run(run(tmp_path, first, owner="job"), CLOCK, pytest.fail)
    checkpoint(tmp_path, 500)
    open_run(run(tmp_path, then, owner="job"), CLOCK, pytest.fail)
    record = read_record(str(tmp_path))
    assert record is not None and record.nodes == nodes
    assert [each.step for each in record.before] == ([500] if (first, then) == (ALONE_HERE, POD) else [])


def test_a_run_that_left_nothing_makes_room_for_another(tmp_path: Path, kept: list[str]) -> None:
    open_run(run(tmp_path, owner="job"), CLOCK, pytest.fail)
    open_run(run(tmp_path, owner="job", given={"seed": "2"}), CLOCK, pytest.fail)
    record = read_record(str(tmp_path))
    assert record is not None and record.arguments == {"seed": "2"}
