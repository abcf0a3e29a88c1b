"""What a run leaves in its directory, and who may use it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.runs.record import OWN, Record, as_text, check_record, compare, describe, find_last, read_record
from tests.support.runs import checkpoint

QA = {"learning_rate": "3e-5", "do_train": True}


def leave(directory: Path, record: Record, nodes: tuple[str, ...] = ()) -> None:
    """Write what a run leaves there."""
    (directory / OWN / "nodes").mkdir(parents=True)
    (directory / OWN / "run.json").write_text(as_text(record))
    for node in nodes:
        (directory / OWN / "nodes" / node).write_text("")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    checkpoint(tmp_path, 5)
    record = describe("qa", {**QA, "output_dir": "x", "hub_token": "hf_secret", "cache_dir": "c"}, 2, str(tmp_path))
    assert record.arguments == {"learning_rate": "3e-5", "do_train": "True"}
    assert [each.step for each in record.before] == [5]
    leave(tmp_path, record)
    assert read_record(str(tmp_path)) == record


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"task": 1, "arguments": [], "nodes": 1, "before": []}', "[" * 9999])
def test_a_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "run.json").write_text(text)
    assert read_record(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("task", "given", "differences"),
    [
        ("qa", QA, []),
        ("glue", QA, ["qa there, glue here"]),
        ("qa", {**QA, "learning_rate": "5e-5"}, ["--learning_rate 3e-5 there, 5e-5 here"]),
        ("qa", {**QA, "seed": "1"}, ["--seed not set there, 1 here"]),
        ("qa", {**QA, "ddp_backend": "gloo", "xpu_backend": "ccl"}, []),
    ],
)
def test_two_runs_are_compared(task: str, given: dict[str, object], differences: list[str]) -> None:
    assert compare(describe("qa", QA, 1, "/none"), describe(task, given, 1, "/none")) == differences


def test_what_an_older_release_recorded_needlessly_is_no_difference() -> None:
    old, new = describe("qa", QA, 1, "/none"), describe("qa", QA, 1, "/none")
    assert compare(old._replace(arguments={**old.arguments, "ddp_backend": "gloo"}), new) == []


def test_another_run_is_told_what_is_there(tmp_path: Path) -> None:
    old, new = describe("qa", QA, 1, str(tmp_path)), describe("qa", {**QA, "seed": "1"}, 1, str(tmp_path))
    leave(tmp_path, old)
    check_record(str(tmp_path), old, new)  # nothing but the record is there
    for step in (500, 1000):
        checkpoint(tmp_path, step)
    (tmp_path / "checkpoint-1500").mkdir()  # half-written
    check_record(str(tmp_path), old, old)

    with pytest.raises(Refusal, match="holds another run") as caught:
        check_record(str(tmp_path), old, new)

    assert caught.value.value == f"{tmp_path} with checkpoint-1500: --seed not set there, 1 here"
    assert "--overwrite_output_dir" in caught.value.remedy and caught.value.code == 2
    assert f"--resume_from_checkpoint {tmp_path}/checkpoint-1000" in caught.value.remedy


def test_checkpoints_without_a_record_belong_to_nobody_known(tmp_path: Path) -> None:
    new = describe("qa", QA, 1, str(tmp_path))
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "notes.txt").write_text("")
    check_record(str(tmp_path), None, new)
    checkpoint(tmp_path, 500)
    with pytest.raises(Refusal, match="holds another run") as caught:
        check_record(str(tmp_path), None, new)
    assert "left no record" in caught.value.value


@pytest.mark.parametrize(
    ("began", "signed", "now", "resumes"),
    [
        (1, ("a",), 1, True),
        (2, ("a", "b"), 2, True),
        (2, ("a",), 1, True),
        (2, ("a",), 2, False),  # each node has a directory of its own
        (1, ("a", "b"), 2, False),  # the other node has come only now, and another rank may have looked before
        (2, ("node-0@a", "node-1@b"), 2, True),
        (2, ("node-0@a", "node-0@b"), 2, False),  # a container has a new name at each start
        (2, ("node-0@a", "node-1@a"), 2, False),  # a machine was another node before
        (2, ("node-0@a", "rank-2@b", "node-0@c"), 4, True),
        (3, ("node-0@a", "node-1@b"), 3, False),  # the third has a directory of its own
        (3, ("node-0@a", "node-1@b", "node-2@c"), 3, True),
        (3, ("node-0@a", "node-1@b", "node-2@b"), 3, False),
        (4, ("node-0@a", "node-1@b", "node-2@c", "node-3@d"), 2, True),
        (2, ("a", "node-0@b"), 2, False),  # an older image has left the first of them
        (2, ("a", "b", "node-0@c"), 2, True),
    ],
)
def test_all_ranks_go_on_or_none(tmp_path: Path, began: int, signed: tuple[str, ...], now: int, resumes: bool) -> None:
    leave(tmp_path, describe("qa", QA, began, str(tmp_path)), signed)
    checkpoint(tmp_path, 500)
    last, note = find_last(str(tmp_path), now)
    assert (last is not None) is resumes
    assert ("checkpoint-500 is not used" in note) is not resumes


@pytest.mark.parametrize(
    ("damaged", "note", "step"),
    [
        ((), "goes on from {}/checkpoint-12", 12),
        ((12,), "checkpoint-12 is damaged (optimizer.pt): goes on from {}/checkpoint-8", 8),
        ((4, 8, 12), "checkpoint-12 is damaged (optimizer.pt), checkpoint-8 is damaged (optimizer.pt), "
         "checkpoint-4 is damaged (optimizer.pt): begins at step 0", None),
    ],
)  # fmt: skip
def test_a_damaged_checkpoint_is_passed_over(
    tmp_path: Path, damaged: tuple[int, ...], note: str, step: int | None
) -> None:
    leave(tmp_path, describe("qa", QA, 1, str(tmp_path)))
    for each in (4, 8, 12):
        place = checkpoint(tmp_path, each)
        if each in damaged:
            (place / "optimizer.pt").write_bytes(b"")
    last, said = find_last(str(tmp_path), 1)
    assert (last.step if last else None) == step and said == note.format(tmp_path)


def test_a_checkpoint_of_the_model_alone_is_passed_over(tmp_path: Path) -> None:
    """The Trainer would go on from it at the full learning rate, without a word."""
    leave(tmp_path, describe("qa", QA, 1, str(tmp_path)))
    (checkpoint(tmp_path, 8) / "optimizer.pt").unlink()
    assert find_last(str(tmp_path), 1) == (None, "checkpoint-8 has no state of the optimizer: begins at step 0")
    checkpoint(tmp_path, 4)
    last, said = find_last(str(tmp_path), 1)
    assert last is not None and last.step == 4 and said.startswith("checkpoint-8 has no state of the optimizer: goes")


def cut(path: Path) -> None:
    """Leave half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def shard(path: Path) -> None:
    """Put an index in the place of the weights, of which one part is not there."""
    path.unlink()
    Path(f"{path}.index.json").write_text('{"weight_map": {"a": "trainer_state.json", "b": "model-2.safetensors"}}')


@pytest.mark.parametrize(
    ("spoil", "name", "fault"),
    [
        (cut, "config.json", "is damaged (config.json)"),
        (cut, "trainer_state.json", "is not complete (trainer_state.json)"),
        (Path.unlink, "trainer_state.json", "is not complete (trainer_state.json)"),
        (Path.unlink, "model.safetensors", "is not complete (model.safetensors)"),
        (shard, "model.safetensors", "is not complete (model-2.safetensors)"),
    ],
)
def test_what_is_wrong_with_the_last_checkpoint_is_said(
    tmp_path: Path, spoil: Callable[[Path], object], name: str, fault: str
) -> None:
    checkpoint(tmp_path, 16)  # of the run before
    leave(tmp_path, describe("qa", QA, 1, str(tmp_path)))
    for each in (8, 12):
        (checkpoint(tmp_path, each) / "config.json").write_text("{}")
    (tmp_path / "checkpoint-4").mkdir()  # half-written, and older than the one that is taken
    (tmp_path / "checkpoint-x").mkdir()
    spoil(tmp_path / "checkpoint-12" / name)
    last, said = find_last(str(tmp_path), 1)
    assert last is not None and last.step == 8
    assert said == f"checkpoint-12 {fault}: goes on from {tmp_path}/checkpoint-8"


def test_a_lone_checkpoint_that_is_half_written_is_said(tmp_path: Path) -> None:
    leave(tmp_path, describe("qa", QA, 1, str(tmp_path)))
    (tmp_path / "checkpoint-4").mkdir()
    assert find_last(str(tmp_path), 1) == (None, "checkpoint-4 is not complete (trainer_state.json): begins at step 0")


def test_of_many_the_last_are_named(tmp_path: Path) -> None:
    leave(tmp_path, describe("qa", QA, 1, str(tmp_path)))
    for each in range(1, 11):
        (checkpoint(tmp_path, each) / "optimizer.pt").unlink()
    _, said = find_last(str(tmp_path), 1)
    assert said.startswith("checkpoint-10 has no") and said.endswith("optimizer, and 7 others: begins at step 0")


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b""), Path.unlink])
def test_nobody_is_sent_to_a_damaged_checkpoint(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    for each in (4, 8):
        checkpoint(tmp_path, each)
    spoil(tmp_path / "checkpoint-8/optimizer.pt")
    with pytest.raises(Refusal) as caught:
        check_record(str(tmp_path), None, describe("qa", QA, 1, str(tmp_path)))
    assert "checkpoint-4" in caught.value.remedy and "checkpoint-8" not in caught.value.remedy


def test_checkpoints_of_the_run_before_are_not_used(tmp_path: Path) -> None:
    checkpoint(tmp_path, 1000)
    leave(tmp_path, describe("qa", QA, 1, str(tmp_path)))
    assert find_last(str(tmp_path), 1) == (None, "")
    checkpoint(tmp_path, 500)
    last, _ = find_last(str(tmp_path), 1)
    assert last is not None and last.step == 500


def test_without_a_record_nothing_is_used(tmp_path: Path) -> None:
    checkpoint(tmp_path, 500)
    assert find_last(str(tmp_path), 1) == (None, "")
