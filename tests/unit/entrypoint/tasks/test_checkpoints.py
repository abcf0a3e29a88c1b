"""The last checkpoint from which the Trainer can go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.tasks.checkpoints import digest_state, find_last, list_steps
from tests.support.runs import archive, checkpoint


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


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def shard(path: Path) -> None:
    path.unlink()
    path.with_name("model.safetensors.index.json").write_text('{"weight_map": {"a": "model-1.safetensors"}}')


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("name", "harm", "fault"),
    [
        ("trainer_state.json", os.unlink, "is not complete (trainer_state.json)"),
        ("trainer_state.json", cut, "is not complete (trainer_state.json)"),
        ("trainer_state.json", pipe, "is not complete (trainer_state.json)"),
        ("model.safetensors", os.unlink, "is not complete (model.safetensors)"),
        ("model.safetensors", shard, "is not complete (model-1.safetensors)"),
        ("model.safetensors", cut, "is damaged (model.safetensors)"),
        ("model.safetensors", empty, "is damaged (model.safetensors)"),
        ("model.safetensors", zero, "is damaged (model.safetensors)"),
        ("optimizer.pt", cut, "is damaged (optimizer.pt)"),
        ("scheduler.pt", zero, "is damaged (scheduler.pt)"),
        ("optimizer.pt", os.unlink, "has no state of the optimizer"),
        ("scheduler.pt", os.unlink, "has no state of the optimizer"),
        ("config.json", empty, "is damaged (config.json)"),
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
        ["pytorch_model.bin", "optimizer.pt", "scheduler.pt"],
        ["adapter_model.safetensors", "optimizer.pt", "scheduler.pt"],
        ["other/adapter_model.bin", "optimizer.pt", "scheduler.pt"],  # an adapter that has a name of its own
        ["model.safetensors", "optimizer_0/x.distcp", "scheduler.pt"],  # FSDP
        ["global_step8/mp_rank_00_model_states.pt"],  # DeepSpeed
    ],
)
def test_what_the_trainer_can_load_is_whole(tmp_path: Path, files: list[str]) -> None:
    place = checkpoint(tmp_path, 8)
    whole = {path.name: path.read_bytes() for path in place.iterdir()}
    for path in place.iterdir():
        if path.name != "trainer_state.json":
            path.unlink()
    for name in files:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(whole.get(name.replace("adapter_", ""), archive()))
    assert last(tmp_path) == (8, [])


def test_one_that_was_there_before_is_no_checkpoint_of_the_run(tmp_path: Path) -> None:
    for step in (4, 8):
        checkpoint(tmp_path, step)
    before = {str(step): digest_state(str(tmp_path), step) for step in (4, 8)}
    assert find_last(str(tmp_path), before) == (None, [])
    (tmp_path / "checkpoint-4/trainer_state.json").write_text('{"global_step": 4, "log_history": [{"loss": 1}]}')
    assert find_last(str(tmp_path), before) == (4, [])
