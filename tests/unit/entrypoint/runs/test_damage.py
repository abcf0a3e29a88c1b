"""A checkpoint whose files are not whole is found by their beginnings and ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entrypoint.runs import damage
from entrypoint.runs.damage import find_damaged, find_fault, is_damaged
from tests.support.runs import NO_TENSORS, archive


def tensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """Return a file of safetensors."""
    text = json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


WHOLE = tensors(
    {"__metadata__": {"format": "pt"}, "b": {"data_offsets": [0, 9]}, "a": {"data_offsets": [9, 12]}}, b"x" * 12
)


@pytest.mark.parametrize(
    ("content", "damaged"),
    [
        (WHOLE, False),
        (NO_TENSORS, False),
        (b"", True),
        (WHOLE[: len(WHOLE) // 2], True),
        (WHOLE[:-1], True),
        (WHOLE + b"x", True),
        (b"\0" * 500, True),
        (b"\xff" * 500, True),
        (tensors({"a": {"data_offsets": [0, 9]}}, b"x" * 9, length=10**9), True),
        (tensors([1]), True),
        (tensors({"a": None}), True),
        (tensors({"a": {"data_offsets": []}}), True),
        (tensors({"a": {"data_offsets": [0, float("inf")]}}), True),
    ],
)
def test_weights_end_where_their_header_says(tmp_path: Path, content: bytes, damaged: bool) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    assert is_damaged(str(tmp_path / "model.safetensors")) is damaged


def test_a_header_that_would_fill_the_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "READ", 10)
    (tmp_path / "model.safetensors").write_bytes(WHOLE[:-1])
    assert not is_damaged(str(tmp_path / "model.safetensors"))


@pytest.mark.parametrize(
    "name",
    ["optimizer.pt", "scheduler.pt", "rng_state.pth", "rng_state_1.pth", "scaler.pt", "pytorch_model.bin",
     "pytorch_model-00002-of-00002.bin", "adapter_model.bin"],
)  # fmt: skip
def test_what_torch_saves_is_an_archive_to_its_end(tmp_path: Path, name: str) -> None:
    path, whole = tmp_path / name, archive()
    path.write_bytes(whole)
    assert find_damaged(str(tmp_path)) is None
    half, zeros = whole[: len(whole) // 2], b"\0" * len(whole)
    for content in (b"", half, whole[:-1], whole[:-30] + zeros[-30:], zeros, zeros[:-30] + whole[-30:], whole[:4]):
        path.write_bytes(content)
        assert find_damaged(str(tmp_path)) == name, content


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_config.json"])
def test_an_adapter_in_a_directory_of_its_own_is_whole_too(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "adapter_model.safetensors").write_bytes(WHOLE)
    (tmp_path / "mine" / "adapter_config.json").write_text("{}")
    (tmp_path / "global_step4").mkdir()
    (tmp_path / "global_step4" / "model.pt").write_text("not read")
    assert find_damaged(str(tmp_path)) is None
    (tmp_path / "mine" / name).write_bytes(b"")
    assert find_damaged(str(tmp_path)) == f"mine/{name}"


@pytest.mark.parametrize("name", ["config.json", "adapter_config.json"])
def test_a_configuration_is_an_object_to_its_end(tmp_path: Path, name: str) -> None:
    path, whole = tmp_path / name, b'{"vocab_size": 9}'
    path.write_bytes(whole)
    assert find_damaged(str(tmp_path)) is None
    for content in (b"", whole[:-1], b"[]", b"\0" * len(whole), b"\xff" * len(whole), b"[" * 200_000):
        path.write_bytes(content)
        assert find_damaged(str(tmp_path)) == name, content


@pytest.mark.parametrize(
    "name",
    ["training_args.bin", "trainer_state.json", "model.py", "model.safetensors.index.json", "tokenizer_config.json"],
)
def test_what_is_not_loaded_is_not_judged(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    (tmp_path / "optimizer.pt").mkdir()
    assert find_damaged(str(tmp_path)) is None


@pytest.mark.parametrize(("error", "damaged"), [(PermissionError(13, "no"), False), (OSError(5, "no"), True)])
def test_what_may_not_be_read_is_left_to_the_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, damaged: bool
) -> None:
    def refuse(path: str) -> bool:
        raise error

    monkeypatch.setattr(damage, "is_archive", refuse)
    (tmp_path / "optimizer.pt").write_bytes(b"")
    assert is_damaged(str(tmp_path / "optimizer.pt")) is damaged


@pytest.mark.parametrize(
    ("files", "directories", "goes_on"),
    [
        (["optimizer.pt", "scheduler.pt"], [], True),
        (["optimizer.bin", "scheduler.pt"], ["pytorch_model_fsdp_0"], True),
        (["scheduler.pt"], ["pytorch_model_fsdp_0", "optimizer_0"], True),
        (["latest"], ["global_step4"], True),
        ([], [], False),  # --save_only_model
        (["optimizer.pt"], [], False),  # the Trainer loads both or none
        (["scheduler.pt"], [], False),
        (["scheduler.pt", "global_step4"], ["runs"], False),
    ],
)
def test_the_trainer_goes_on_with_a_state_of_the_optimizer(
    tmp_path: Path, files: list[str], directories: list[str], goes_on: bool
) -> None:
    (tmp_path / "model.safetensors").write_bytes(NO_TENSORS)
    for name in files:
        (tmp_path / name).write_bytes(archive())
    for name in directories:
        (tmp_path / name).mkdir()
    assert find_fault(str(tmp_path)) == (None if goes_on else "has no state of the optimizer")
