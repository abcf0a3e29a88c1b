"""The last checkpoint from which the Trainer can go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.results.checkpoints import digest_state, find_last, list_steps
from tests.support.runs import checkpoint


def last(directory: Path) -> tuple[int | None, list[str]]:
    return find_last(str(directory), {})


def test_the_highest_number_is_the_last(tmp_path: Path) -> None:
    for step in (500, 1000, 20):
        checkpoint(tmp_path, step)
    for name in ("checkpoint-x", "checkpoint-", "checkpoint-07", "checkpoint-²", "best", "checkpoint-9"):
        (tmp_path / name).touch() if name.endswith("9") else (tmp_path / name).mkdir()
    assert list_steps(str(tmp_path)) == [1000, 500, 20]
    assert last(tmp_path) == (1000, [])
    assert last(tmp_path / "none") == (None, [])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def empty(path: Path) -> None:
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
        ("model.safetensors", empty, "is damaged (model.safetensors is empty)"),
        ("config.json", empty, "is damaged (config.json is empty)"),
        ("optimizer.pt", empty, "is damaged (optimizer.pt is empty)"),
        ("optimizer.pt", os.unlink, "has no state of the optimizer"),
        ("scheduler.pt", os.unlink, "has no state of the optimizer"),
        ("tokenizer.json", empty, None),
    ],
)
def test_one_that_is_not_whole_is_passed_over(
    tmp_path: Path, name: str, harm: Callable[[Path], object], fault: str | None
) -> None:
    checkpoint(tmp_path, 4)
    place = checkpoint(tmp_path, 8)
    for each in ("config.json", "tokenizer.json"):
        (place / each).write_text('{"a": 1}')
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


def test_one_that_was_there_before_is_no_checkpoint_of_the_run(tmp_path: Path) -> None:
    for step in (4, 8):
        checkpoint(tmp_path, step)
    before = {str(step): digest_state(str(tmp_path), step) for step in (4, 8)}
    assert find_last(str(tmp_path), before) == (None, [])
    (tmp_path / "checkpoint-4/trainer_state.json").write_text('{"global_step": 4, "log_history": [{"loss": 1}]}')
    assert find_last(str(tmp_path), before) == (4, [])
