"""The last checkpoint from which the Trainer can go on."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.errors import Refusal
from multinode_image.results.checkpoints import (
    CheckpointFilter,
    digest_state,
    find_last,
    list_owners,
    list_steps,
    mark_state,
)
from tests.support.runs import checkpoint


def last(directory: Path) -> tuple[int | None, list[str]]:
    return find_last(str(directory), CheckpointFilter())


def test_the_highest_number_is_the_last(tmp_path: Path) -> None:
    for step in (500, 1000, 20):
        checkpoint(tmp_path, step)
    for name in ("checkpoint-x", "checkpoint-", "checkpoint-07", "checkpoint-²", "best", "checkpoint-9"):
        (tmp_path / name).touch() if name.endswith("9") else (tmp_path / name).mkdir()
    assert list_steps(str(tmp_path)) == [1000, 500, 20]
    assert last(tmp_path) == (1000, [])
    assert last(tmp_path / "none") == (None, [])


def test_all_owners_of_checkpoints_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"checkpoint-1": 3, "checkpoint-1/trainer_state.json": 2, "checkpoint-2": 3, "checkpoint-3": 1}
    for step in (1, 2, 3):
        (tmp_path / f"checkpoint-{step}").mkdir()

    def look(path: str) -> SimpleNamespace:
        if (name := os.path.relpath(path, tmp_path)) not in owners:
            raise FileNotFoundError
        return SimpleNamespace(st_uid=owners[name], st_mode=stat.S_IFDIR)

    monkeypatch.setattr(os, "lstat", look)
    assert (list_owners(str(tmp_path)), list_owners(str(tmp_path), 1), list_owners(str(tmp_path), 2, 3)) == (
        [1, 2, 3], [2, 3], [1, 3],
    )  # fmt: skip


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def empty(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("name", "harm", "fault"),
    [
        ("trainer_state.json", os.unlink, "is not complete (trainer_state.json)"),
        ("trainer_state.json", cut, "is not complete (trainer_state.json)"),
        ("trainer_state.json", pipe, "is not complete (trainer_state.json)"),
        *((name, empty, f"is damaged ({Path(name).name} is empty)") for name in (
            "model.safetensors", "pytorch_model.bin", "adapter_model.bin", "a/adapter_model.bin", "config.json",
            "optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state_0.pth",
        )),
        ("optimizer.pt", os.unlink, "has no state of the optimizer"),
        ("scheduler.pt", os.unlink, "has no state of the optimizer"),
        ("tokenizer.json", empty, None),
    ],
)  # fmt: skip
def test_one_that_is_not_whole_is_passed_over(
    tmp_path: Path, name: str, harm: Callable[[Path], object], fault: str | None
) -> None:
    checkpoint(tmp_path, 4)
    place = checkpoint(tmp_path, 8)
    for file in ("config.json", "tokenizer.json"):
        (place / file).write_text('{"a": 1}')
    harm(place / name)
    assert last(tmp_path) == ((8, []) if fault is None else (4, [f"checkpoint-8 {fault}"]))


@pytest.mark.parametrize(
    "files",
    [
        ["adapter_model.safetensors", "optimizer.pt", "scheduler.pt"],
        ["model.safetensors", "optimizer_0/x.distcp", "scheduler.pt"],  # FSDP
        ["global_step8/mp_rank_00_model_states.pt"],  # DeepSpeed
    ],
)
def test_what_the_trainer_can_load_is_complete(tmp_path: Path, files: list[str]) -> None:
    place = checkpoint(tmp_path, 8)
    for path in place.iterdir():
        if path.name != "trainer_state.json":
            path.unlink()
    for name in files:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"x")
    assert last(tmp_path) == (8, [])


def test_the_last_one_of_a_run_that_has_ended_is_whole(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, 8)
    (place / "trainer_state.json").write_text('{"global_step": 8, "max_steps": 8}')
    assert last(tmp_path) == (8, [])


def before(directory: Path, *steps: int) -> dict[str, str]:
    return {str(step): mark_state(str(directory), step) for step in steps}


def test_one_that_was_there_before_is_no_checkpoint_of_the_run(tmp_path: Path) -> None:
    """Other data may have the same losses: written anew it is the run's, whatever is in it."""
    places = [checkpoint(tmp_path, step) for step in (4, 8)]
    chosen = CheckpointFilter(before(tmp_path, 4, 8), is_timed=True)
    assert find_last(str(tmp_path), chosen) == (None, [])
    state = places[0] / "trainer_state.json"
    os.utime(state, (state.stat().st_mtime + 2,) * 2)
    assert find_last(str(tmp_path), chosen) == (4, [])


@pytest.mark.parametrize("cut", [False, True], ids=["copy", "0.1.0"])
def test_without_times_the_same_losses_are_said_to_be_those_from_before(tmp_path: Path, cut: bool) -> None:
    checkpoint(tmp_path, 4)
    marks = {step: mark.split()[0] if cut else f"{mark}0" for step, mark in before(tmp_path, 4).items()}
    said = ["checkpoint-4 is taken for one that was there before this run"]
    assert find_last(str(tmp_path), CheckpointFilter(marks)) == (None, said)
    (tmp_path / "checkpoint-4/trainer_state.json").write_text('{"global_step": 4, "log_history": [{"loss": 1}]}')
    assert find_last(str(tmp_path), CheckpointFilter(marks)) == (4, [])


def link_out(place: Path) -> None:
    shutil.move(place, place.parent.parent / "elsewhere")
    place.symlink_to(place.parent.parent / "elsewhere")


def link_weights(place: Path) -> None:
    other = place.parent.parent / "weights"
    shutil.move(place / "model.safetensors", other)
    (place / "model.safetensors").symlink_to(other)


def link_below(place: Path) -> None:
    (place / "optimizer_0").mkdir()
    (place / "optimizer_0/x.distcp").symlink_to(place / "optimizer.pt")


def promise_less(place: Path) -> None:
    (place / "trainer_state.json").write_text('{"global_step": 8, "max_steps": 6}')


@pytest.mark.parametrize(
    ("harm", "chosen", "faults"),
    [
        (link_out, CheckpointFilter(), []),
        (link_weights, CheckpointFilter(), ["has a link (model.safetensors)"]),
        (link_below, CheckpointFilter(), ["has a link (optimizer_0/x.distcp)"]),
        (promise_less, CheckpointFilter(), ["is not complete (trainer_state.json)"]),
        (None, CheckpointFilter(most=6), ["is beyond the 6 steps of this run"]),
        (
            None,
            CheckpointFilter(users=frozenset({os.getuid() + 1})),
            [f"belongs to uid {os.getuid()}, who has not run this"],
        ),
        (None, CheckpointFilter(users=frozenset({os.getuid()}), most=8), None),
    ],
)
def test_what_others_could_have_put_there_is_not_believed(
    tmp_path: Path, harm: Callable[[Path], None] | None, chosen: CheckpointFilter, faults: list[str] | None
) -> None:
    directory = tmp_path / "output"
    place = checkpoint(directory, 8)
    if harm:
        harm(place)
    said = [f"checkpoint-8 {fault}" for fault in faults or []]
    assert find_last(str(directory), chosen) == (8 if faults is None else None, said)


def enlarge(place: Path) -> None:
    with (place / "trainer_state.json").open("ab") as file:
        file.truncate(6 << 30)


def link_state(place: Path) -> None:
    (place / "trainer_state.json").rename(place.parent.parent / "state")
    (place / "trainer_state.json").symlink_to(place.parent.parent / "state")


@pytest.mark.parametrize(
    ("chosen", "fault"),
    [
        (CheckpointFilter(), "has logged more than can be read (trainer_state.json)"),
        (CheckpointFilter(most=6), "is beyond the 6 steps of this run"),
        (CheckpointFilter(users=frozenset({os.getuid() + 1})), f"belongs to uid {os.getuid()}, who has not run this"),
        (CheckpointFilter({"8": " 0"}, is_timed=True), "has logged more than can be read (trainer_state.json)"),
    ],
)
def test_a_state_of_any_size_is_passed_over(tmp_path: Path, chosen: CheckpointFilter, fault: str) -> None:
    directory = tmp_path / "output"
    enlarge(checkpoint(directory, 8))
    checkpoint(directory, 4)
    step = None if chosen.users else 4

    assert (
        find_last(str(directory), chosen)[0] == step
        and find_last(str(directory), chosen)[1][0] == f"checkpoint-8 {fault}"
    )
    assert mark_state(str(directory), 8).startswith(" ") and not mark_state(str(directory), 4).startswith(" ")


@pytest.mark.parametrize(
    "chosen", [CheckpointFilter(most=6), CheckpointFilter(users=frozenset({os.getuid() + 1}))], ids=["step", "owner"]
)
def test_nothing_of_a_stranger_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: CheckpointFilter
) -> None:
    checkpoint(tmp_path, 8)
    for name in ("open", "walk"):
        monkeypatch.setattr(os, name, lambda path, *_, **__: pytest.fail(f"{path} was opened"))

    step, faults = find_last(str(tmp_path), chosen)
    assert step is None and len(faults) == 1


def test_no_digest_is_that_of_a_link_or_a_pipe(tmp_path: Path) -> None:
    directory = tmp_path / "output"
    for step, harm in ((4, link_state), (8, lambda place: pipe(place / "trainer_state.json"))):
        harm(checkpoint(directory, step))

    assert {digest_state(str(directory), step) for step in (4, 8, 9)} == {""}


def refuse(call: Callable[..., Any], closed: str) -> Callable[..., Any]:
    def checked(path: Any, *more: Any) -> Any:
        if os.fspath(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", closed)
        return call(path, *more)

    return checked


@pytest.mark.parametrize("name", ["optimizer.pt", "trainer_state.json", "."])
def test_one_that_may_not_be_read_is_refused_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    checkpoint(tmp_path, 4)
    closed = os.path.normpath(checkpoint(tmp_path, 8) / name)
    for holder, call in ((os, "open"), (os, "listdir")):
        monkeypatch.setattr(holder, call, refuse(getattr(holder, call), closed))
    monkeypatch.setattr(os, "getuid", lambda: os.lstat(closed).st_uid + 1)
    with pytest.raises(Refusal) as refused:
        last(tmp_path)
    assert closed in refused.value.value and f"--user {os.lstat(closed).st_uid}:0" in refused.value.remedy
