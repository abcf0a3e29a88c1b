"""What a run leaves in its directory, and who may use it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.files import read_text
from entrypoint.runs.checkpoints import Checkpoint
from entrypoint.runs.record import (
    OWN,
    Record,
    as_text,
    check_record,
    compare,
    describe,
    find_last,
    mark_time,
    read_record,
)
from entrypoint.tasks.arguments import read_given
from tests.support.runs import checkpoint

QA = {"learning_rate": "3e-5", "do_train": True}


def leave(directory: Path, record: Record) -> None:
    """Write what a run leaves there."""
    (directory / OWN).mkdir(parents=True, exist_ok=True)
    (directory / OWN / "run.json").write_text(as_text(record))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    checkpoint(tmp_path, 5)
    record = describe("qa", {**QA, "output_dir": "x", "token": "hf_secret", "cache_dir": "c"}, str(tmp_path))
    assert record.arguments == {"learning_rate": "3e-5", "do_train": "True"}
    assert [each.step for each in record.before] == [5]
    leave(tmp_path, record)
    assert read_record(str(tmp_path)) == record


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"task": 1, "arguments": [], "before": []}', "[" * 9999])
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
        ("qa", {**QA, "dataloader_num_workers": "0", "preprocessing_num_workers": "2", "disable_tqdm": True}, []),
        ("qa", {**QA, "logging_steps": "5", "report_to": "none", "hub_model_id": "a/b", "push_to_hub": True}, []),
        ("qa", {**QA, "run_name": "x", "ddp_timeout": "7", "log_level": "info", "per_device_eval_batch_size": 1}, []),
        ("qa", {**QA, "dataloader_drop_last": True}, ["--dataloader_drop_last not set there, True here"]),
    ],
)
def test_two_runs_are_compared(task: str, given: dict[str, object], differences: list[str]) -> None:
    assert compare(describe("qa", QA, "/none"), describe(task, given, "/none"), splits=True) == differences


@pytest.mark.parametrize(
    ("there", "here", "splits", "same"),
    [
        (("12", None), ("6", "2"), True, True),
        (("12", None), ("4", 3), True, True),
        ((None, None), ("4", "2"), True, True),  # the Trainer takes 8
        ((None, None), (None, "1"), True, True),
        (("12", None), ("6", None), True, False),
        (("12", None), ("6", "3"), True, False),
        (("12", None), ("x", "2"), True, False),
        (("12", None), ("6", "2"), False, False),  # goes on with the 12 of its checkpoint
    ],
)
def test_the_examples_of_a_step_may_be_taken_in_parts(
    there: tuple[object, ...], here: tuple[object, ...], splits: bool, same: bool
) -> None:
    names = ("per_device_train_batch_size", "gradient_accumulation_steps")
    old, new = (
        describe("qa", {**QA, **{name: value for name, value in zip(names, values, strict=True) if value}}, "/none")
        for values in (there, here)
    )
    assert (compare(old, new, splits=splits) == []) is same


def test_what_an_older_release_recorded_needlessly_is_no_difference() -> None:
    old, new = describe("qa", QA, "/none"), describe("qa", QA, "/none")
    assert compare(old._replace(arguments={**old.arguments, "ddp_backend": "gloo"}), new, splits=True) == []


@pytest.mark.parametrize(
    ("there", "here", "same"),
    [("a b", "a b", True), ("a b", "a c", False), ("a b", "a", False), ("a", "a b", False)],
)
def test_every_value_of_a_flag_counts(there: str, here: str, same: bool) -> None:
    old, new = (
        describe("qa", read_given(["--label_names", *values.split()], read_text, strict=True), "/none")
        for values in (there, here)
    )
    assert compare(old, new, splits=True) == ([] if same else [f"--label_names {there} there, {here} here"])


@pytest.mark.parametrize(("there", "same"), [("a", True), ("b", False), ("", False)])
def test_an_older_release_recorded_the_first_value_of_a_flag(tmp_path: Path, there: str, same: bool) -> None:
    (tmp_path / OWN).mkdir()
    old = {"task": "qa", "arguments": {"label_names": there}, "before": []}
    (tmp_path / OWN / "run.json").write_text(json.dumps(old))
    record = read_record(str(tmp_path))
    assert record is not None
    assert (compare(record, describe("qa", {"label_names": "a b"}, "/none"), splits=True) == []) is same


def test_another_run_is_told_what_is_there(tmp_path: Path) -> None:
    old, new = describe("qa", QA, str(tmp_path)), describe("qa", {**QA, "seed": "1"}, str(tmp_path))
    leave(tmp_path, old)
    check_record(str(tmp_path), old, new, splits=True)  # nothing but the record is there
    for step in (500, 1000):
        checkpoint(tmp_path, step)
    (tmp_path / "checkpoint-1500").mkdir()  # half-written
    check_record(str(tmp_path), old, old, splits=True)

    with pytest.raises(Refusal, match="holds another run") as caught:
        check_record(str(tmp_path), old, new, splits=True)

    assert caught.value.value == f"{tmp_path} with checkpoint-1500: --seed not set there, 1 here"
    assert "--overwrite_output_dir" in caught.value.remedy and caught.value.code == 2
    assert f"--resume_from_checkpoint {tmp_path}/checkpoint-1000" in caught.value.remedy


def test_checkpoints_without_a_record_belong_to_nobody_known(tmp_path: Path) -> None:
    new = describe("qa", QA, str(tmp_path))
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "notes.txt").write_text("")
    check_record(str(tmp_path), None, new, splits=True)
    checkpoint(tmp_path, 500)
    with pytest.raises(Refusal, match="holds another run") as caught:
        check_record(str(tmp_path), None, new, splits=True)
    assert "left no record" in caught.value.value


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
    leave(tmp_path, describe("qa", QA, str(tmp_path)))
    for each in (4, 8, 12):
        place = checkpoint(tmp_path, each)
        if each in damaged:
            (place / "optimizer.pt").write_bytes(b"")
    last, said = find_last(str(tmp_path))
    assert (last.step if last else None) == step and said == note.format(tmp_path)


def test_a_checkpoint_of_the_model_alone_is_passed_over(tmp_path: Path) -> None:
    """The Trainer would go on from it at the full learning rate, without a word."""
    leave(tmp_path, describe("qa", QA, str(tmp_path)))
    (checkpoint(tmp_path, 8) / "optimizer.pt").unlink()
    assert find_last(str(tmp_path)) == (None, "checkpoint-8 has no state of the optimizer: begins at step 0")
    checkpoint(tmp_path, 4)
    last, said = find_last(str(tmp_path))
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
    leave(tmp_path, describe("qa", QA, str(tmp_path)))
    for each in (8, 12):
        (checkpoint(tmp_path, each) / "config.json").write_text("{}")
    (tmp_path / "checkpoint-4").mkdir()  # half-written, and older than the one that is taken
    (tmp_path / "checkpoint-x").mkdir()
    spoil(tmp_path / "checkpoint-12" / name)
    last, said = find_last(str(tmp_path))
    assert last is not None and last.step == 8
    assert said == f"checkpoint-12 {fault}: goes on from {tmp_path}/checkpoint-8"


def test_a_lone_checkpoint_that_is_half_written_is_said(tmp_path: Path) -> None:
    leave(tmp_path, describe("qa", QA, str(tmp_path)))
    (tmp_path / "checkpoint-4").mkdir()
    assert find_last(str(tmp_path)) == (None, "checkpoint-4 is not complete (trainer_state.json): begins at step 0")


def test_of_many_the_last_are_named(tmp_path: Path) -> None:
    leave(tmp_path, describe("qa", QA, str(tmp_path)))
    for each in range(1, 11):
        (checkpoint(tmp_path, each) / "optimizer.pt").unlink()
    _, said = find_last(str(tmp_path))
    assert said.startswith("checkpoint-10 has no") and said.endswith("optimizer, and 7 others: begins at step 0")


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b""), Path.unlink])
def test_nobody_is_sent_to_a_damaged_checkpoint(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    for each in (4, 8):
        checkpoint(tmp_path, each)
    spoil(tmp_path / "checkpoint-8/optimizer.pt")
    with pytest.raises(Refusal) as caught:
        check_record(str(tmp_path), None, describe("qa", QA, str(tmp_path)), splits=True)
    assert "checkpoint-4" in caught.value.remedy and "checkpoint-8" not in caught.value.remedy


def test_checkpoints_of_the_run_before_are_not_used(tmp_path: Path) -> None:
    checkpoint(tmp_path, 1000)
    leave(tmp_path, describe("qa", QA, str(tmp_path)))
    assert find_last(str(tmp_path)) == (None, "")
    checkpoint(tmp_path, 500)
    last, _ = find_last(str(tmp_path))
    assert last is not None and last.step == 500


@pytest.mark.parametrize("keeps", [True, False])
def test_a_copy_of_a_directory_has_the_same_run(tmp_path: Path, keeps: bool) -> None:
    """A copy may have other times, in any order, and its first files those that the run has written."""
    checkpoint(tmp_path, 5000)
    (tmp_path / OWN).mkdir()
    leave(tmp_path, describe("qa", QA, str(tmp_path))._replace(written=mark_time(str(tmp_path))))
    checkpoint(tmp_path, 500)
    for path in (*tmp_path.glob("checkpoint-*/trainer_state.json"), tmp_path / OWN / "time"):
        if not keeps:
            os.utime(path, ns=(77, 77))
    last, _ = find_last(str(tmp_path))
    assert last is not None and last.step == 500


@pytest.mark.parametrize("again", [[500], [500, 1000]])
@pytest.mark.parametrize("digests", [True, False])
def test_a_checkpoint_that_was_written_again_is_the_run_s_own(tmp_path: Path, digests: bool, again: list[int]) -> None:
    """The same steps may give the same state to the last bit. An older release has left no digests."""
    for step in (500, 1000):
        checkpoint(tmp_path, step)
    (tmp_path / OWN).mkdir()
    record = describe("qa", QA, str(tmp_path))._replace(written=mark_time(str(tmp_path)) if digests else 0)
    leave(tmp_path, record if digests else record._replace(before=[each._replace(digest="") for each in record.before]))
    for step in again:
        os.utime(tmp_path / f"checkpoint-{step}/trainer_state.json", ns=(77, 77))
    last, _ = find_last(str(tmp_path))
    assert last is not None and last.step == again[-1]


def test_the_record_of_an_older_release_is_read(tmp_path: Path) -> None:
    checkpoint(tmp_path, 5)
    (tmp_path / OWN).mkdir()
    old = {"task": "qa", "arguments": {"seed": "1"}, "nodes": 2, "before": [["checkpoint-5", 5, 5]]}
    (tmp_path / OWN / "run.json").write_text(json.dumps(old))
    record = read_record(str(tmp_path))
    assert record == Record("qa", {"seed": "1"}, "", [Checkpoint("checkpoint-5", 5, 5)], has_all=False)
    assert find_last(str(tmp_path)) == (None, "")


def test_without_a_record_nothing_is_used(tmp_path: Path) -> None:
    checkpoint(tmp_path, 500)
    assert find_last(str(tmp_path)) == (None, "")


def test_a_record_has_no_secret(tmp_path: Path) -> None:
    given = {**QA, "train_file": "https://u:S3CRET@h/f?sig=S3CRET", "filter": "api_key=S3CRET", "tokens": "S3CRET"}
    text = as_text(describe("qa", given, str(tmp_path)))

    assert "S3CRET" not in text and "https://***@h/f" in text
