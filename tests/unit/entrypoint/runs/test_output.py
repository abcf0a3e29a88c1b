"""A run and its directory, before it starts."""

from __future__ import annotations

import contextlib
import errno
import itertools
from pathlib import Path
from typing import Any

import pytest

from entrypoint.errors import Refusal
from entrypoint.launchers.world import ALONE, MPI, SLURM, TORCHRUN, World
from entrypoint.runs import lease, output
from entrypoint.runs.lease import Clock, make_text, read_lease, renew
from entrypoint.runs.output import Role, Run, check_run, find_resume, make_run, name_mark, name_owner, open_run
from entrypoint.runs.record import OWN, is_shared, read_record
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
    return made._replace(**{"host": "a", "mark": name_mark(world, "a"), **more})


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
    assert record is not None and (record.task, record.nodes, record.before) == ("qa", 2, [])
    assert held is not None and held.owner == made.owner and kept == [made.owner]
    assert [each.name for each in (tmp_path / OWN / "nodes").iterdir()] == ["node-0@a"]


def test_another_node_signs_and_does_no_more(tmp_path: Path, kept: list[str]) -> None:
    assert open_run(run(tmp_path, POD._replace(node_rank=1)), CLOCK, pytest.fail) == {}
    assert sorted(each.name for each in (tmp_path / OWN).iterdir()) == ["nodes"] and kept == []
    assert [each.name for each in (tmp_path / OWN / "nodes").iterdir()] == ["node-1@a"]


@pytest.mark.parametrize(
    ("world", "mark"),
    [
        (World(ALONE, ""), "node-0@h"),
        (POD, "node-0@h"),
        (POD._replace(node_rank=1), "node-1@h"),
        (ELASTIC, ""),  # which of the nodes it is, and its name at the next start, are unknown
        (World(SLURM, "", (2, 2), None, 2, 0, 0, 4), "node-0@h"),
        (World(SLURM, "", (2, 2), None, 2, 2, 0, 4), "rank-2@h"),
        (World(SLURM, "", (2, 2), None, 2, 3, 1, 4), ""),  # the first rank of its node signs
        (World(MPI, "", (1, 4), None, 4, 0, 0, 4), "h"),  # on how many nodes is unknown
        (World(MPI, "", (1, 4), None, 4, 3, 0, 4), "h"),
        (World(MPI, "", (1, 1), None, 4, 0, 0, 4), "node-0@h"),
    ],
)
def test_a_node_signs_with_its_place(world: World, mark: str) -> None:
    assert name_mark(world, "h") == mark


def test_nodes_with_directories_of_their_own_begin_at_step_0(tmp_path: Path, kept: list[str]) -> None:
    """A container without a name of its own has another one at each start."""
    for start in ("a", "b"):
        for node in (0, 1):
            world = POD._replace(node_rank=node)
            made = run(tmp_path / str(node), world, mark=name_mark(world, f"{start}{node}"))
            restart(made)
            last, note = find_resume(made)
            assert last is None and ("not all nodes are known to share" in note) == (node == 0 and start == "b")
        checkpoint(tmp_path / "0", 500 if start == "a" else 1000)


def start_elastic(directory: Path, host: str, others: list[str]) -> Run:
    """Start a node of an elastic job; others: the nodes that renew the lease in this directory at that time."""
    made = run(directory, ELASTIC, host=host, mark=name_mark(ELASTIC, host))

    def renew_others(seconds: float) -> None:
        for other in others:
            renew(f"{directory}/{OWN}/lease.json", made.owner, other)

    open_run(made, Clock(itertools.count(0, 4).__next__, renew_others), lambda _: None)
    return made


@pytest.mark.parametrize("shared", [True, False])
def test_nodes_of_an_elastic_job_go_on_where_they_have_met_in_the_directory(
    tmp_path: Path, kept: list[str], shared: bool
) -> None:
    """A container has a new name at each start, and the lease of the start before is left behind."""
    first, second = tmp_path / "0", tmp_path / ("0" if shared else "1")
    for start in ("a", "b"):
        nodes = [start_elastic(first, f"{start}0", [])]
        nodes.append(start_elastic(second, f"{start}1", [f"{start}0"] if shared else []))
        if start == "a":
            checkpoint(first, 500)

    found = [find_resume(node)[0] for node in nodes]
    assert [last.name if last else None for last in found] == (["checkpoint-500"] * 2 if shared else [None] * 2)


@pytest.mark.parametrize("left", [False, True], ids=["at once", "beside a dead job's lease"])
def test_a_node_that_finds_the_lease_taken_while_it_looks_has_met_another(
    tmp_path: Path, kept: list[str], monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    path, made = tmp_path / OWN / "lease.json", run(tmp_path, ELASTIC, host="b", mark="")
    if left:
        path.parent.mkdir()
        path.write_text(make_text("another job", "host"))
    else:
        monkeypatch.setattr(output, "take", lambda *words, **more: take_first(*words, **more))

    def take_first(path: str, owner: str, *words: Any, **more: Any) -> object:
        Path(path).write_text(make_text(owner, "a"))
        return lease.take(path, owner, *words, **more)

    def other(seconds: float) -> None:
        path.write_text(make_text(made.owner, "a"))

    open_run(made, Clock(itertools.count().__next__, other), lambda _: None)
    assert is_shared(str(tmp_path), 2)


def test_a_proof_is_not_waited_for_twice(tmp_path: Path, kept: list[str]) -> None:
    start_elastic(tmp_path, "a", [])
    start_elastic(tmp_path, "b", ["a"])
    open_run(run(tmp_path, ELASTIC, host="c"), CLOCK, pytest.fail)


def test_a_restarted_job_goes_on(tmp_path: Path, kept: list[str]) -> None:
    for node in (0, 1):
        world = POD._replace(node_rank=node)
        restart(run(tmp_path, world, mark=name_mark(world, f"n{node}")))
    checkpoint(tmp_path, 500)

    for world in (POD, POD._replace(node_rank=1)):
        made = run(tmp_path, world)
        restart(made)
        last, _ = find_resume(made)
        assert last is not None and last.name == "checkpoint-500"


def test_who_begins_anew_uses_no_checkpoint(tmp_path: Path, kept: list[str]) -> None:
    restart(run(tmp_path))
    checkpoint(tmp_path, 500)
    made = run(tmp_path, anew=True)
    restart(made)
    record = read_record(str(tmp_path))
    assert record is not None and [each.step for each in record.before] == [500]
    assert find_resume(made) == (None, "") == find_resume(made._replace(anew=False))


def test_another_run_is_refused_and_leaves_no_lease(tmp_path: Path, kept: list[str]) -> None:
    restart(run(tmp_path))
    checkpoint(tmp_path, 500)
    other = run(tmp_path)._replace(given={"seed": "2"})
    with pytest.raises(Refusal, match="holds another run"):
        restart(other)
    assert read_lease(f"{tmp_path}/{OWN}/lease.json") is None


def test_a_directory_of_another_user_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, text: str) -> bool:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(output, "create", refuse)
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
    def refuse(path: str, text: str) -> bool:
        raise OSError(number, "no", path)

    monkeypatch.setattr(output, "create", refuse)
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


@pytest.mark.parametrize(
    ("first", "then", "nodes"), [(ALONE_HERE, POD, 2), (POD, ALONE_HERE, 2), (ALONE_HERE, ALONE_HERE, 1)]
)
def test_a_run_that_grows_beyond_its_node_begins_a_new_record(
    tmp_path: Path, kept: list[str], first: World, then: World, nodes: int
) -> None:
    """Its checkpoints were on one node, and others need not see them."""
    restart(run(tmp_path, first, owner="job"))
    checkpoint(tmp_path, 500)
    restart(run(tmp_path, then, owner="job"))
    record = read_record(str(tmp_path))
    assert record is not None and record.nodes == nodes
    assert [each.step for each in record.before] == ([500] if (first, then) == (ALONE_HERE, POD) else [])


def test_a_checkpoint_of_one_node_is_said_to_be_left_out(tmp_path: Path, kept: list[str]) -> None:
    restart(run(tmp_path, ALONE_HERE, owner="job"))
    checkpoint(tmp_path, 500)
    said: list[str] = []
    open_run(run(tmp_path, owner="other"), Clock(itertools.count(0, 4).__next__, lambda _: None), said.append)
    assert said[-1] == f"{tmp_path}/checkpoint-500 is not used: one node wrote it, and others may not see it"


def test_a_run_that_left_nothing_makes_room_for_another(tmp_path: Path, kept: list[str]) -> None:
    restart(run(tmp_path, owner="job"))
    restart(run(tmp_path, owner="job", given={"seed": "2"}))
    record = read_record(str(tmp_path))
    assert record is not None and record.arguments == {"seed": "2"}
