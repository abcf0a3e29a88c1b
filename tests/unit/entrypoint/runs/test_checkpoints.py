"""Only what was written to its end is a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entrypoint.runs.checkpoints import list_adapters, list_checkpoints
from tests.support.runs import checkpoint


def test_they_are_in_the_order_of_their_steps(tmp_path: Path) -> None:
    for step in (1000, 500, 99):
        checkpoint(tmp_path, step)
    found = list_checkpoints(str(tmp_path))
    assert [each[:3] for each in found] == [(f"checkpoint-{step}", step, step) for step in (99, 500, 1000)]
    assert len({each.digest for each in found}) == 3 and {len(each.digest) for each in found} == {8}
    assert list_checkpoints(str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("state", "weights"),
    [({}, "model.safetensors"), ({"global_step": 4}, "model.safetensors"), ([], "model.safetensors"),
     (None, None), (None, "optimizer.pt"), (None, "model.safetensors.index.json")],
)  # fmt: skip
def test_a_half_written_one_is_passed_over(tmp_path: Path, state: object, weights: str | None) -> None:
    checkpoint(tmp_path, 5, state=state, weights=weights)
    assert list_checkpoints(str(tmp_path)) == []


@pytest.mark.parametrize("name", ["checkpoint-", "checkpoint-x", "checkpoint-5"])
def test_a_directory_without_a_state_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "checkpoint-9").write_text("a file")
    assert list_checkpoints(str(tmp_path)) == []


@pytest.mark.parametrize(("parts", "complete"), [(["a", "b"], True), (["a"], False)])
def test_every_part_of_the_weights_counts(tmp_path: Path, parts: list[str], complete: bool) -> None:
    place = checkpoint(tmp_path, 5, weights=None)
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "a", "y": "b", "z": "a"}}))
    for part in parts:
        (place / part).write_text("")
    assert bool(list_checkpoints(str(tmp_path))) is complete


@pytest.mark.parametrize(
    ("file", "complete"), [("adapter_model.safetensors", True), ("adapter_model.bin", True), ("README.md", False)]
)
def test_an_adapter_with_a_name_has_a_directory_of_its_own(tmp_path: Path, file: str, complete: bool) -> None:
    place = checkpoint(tmp_path, 5, weights=None)
    (place / "mine").mkdir()
    (place / "mine" / file).write_text("")
    assert bool(list_checkpoints(str(tmp_path))) is complete
    assert list_adapters(str(place)) == ["mine"] * complete


def test_deepspeed_keeps_the_weights_in_a_directory_of_its_own(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, 5, weights=None)
    (place / "global_step5").touch()
    assert list_checkpoints(str(tmp_path)) == []
    (place / "global_step5").unlink()
    (place / "global_step5").mkdir()
    assert [each.step for each in list_checkpoints(str(tmp_path))] == [5]


@pytest.mark.parametrize(
    "index", [[], {}, {"metadata": {}}, {"weight_map": []}, {"weight_map": {"a": ["x"]}}, {"weight_map": {"a": None}}]
)
def test_an_index_that_is_none_is_passed_over(tmp_path: Path, index: object) -> None:
    place = checkpoint(tmp_path, 5, weights=None)
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    assert list_checkpoints(str(tmp_path)) == []


def test_a_state_that_is_cut_is_none(tmp_path: Path) -> None:
    (checkpoint(tmp_path, 5) / "trainer_state.json").write_text('{"global_step": 5, "log')
    assert list_checkpoints(str(tmp_path)) == []
