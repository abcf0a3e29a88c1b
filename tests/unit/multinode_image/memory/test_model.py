"""The shape of a model by its files: exact from its weights, counted from a configuration, none from anything else."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from multinode_image.memory.model import Model, find_model, read_model

BERT = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
    "vocab_size": 30522, "max_position_embeddings": 512, "architectures": ["BertForMaskedLM"],
}  # fmt: skip
DISTILBERT = {
    "dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12, "vocab_size": 30522, "max_position_embeddings": 512,
}  # fmt: skip
GPT2 = {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024, "n_inner": None}
LLAMA = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131072, "tie_word_embeddings": True,
}  # fmt: skip


def save(place: Path, config: object, **weights: object) -> str:
    """Write a model: its configuration, and files with such headers."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    for name, header in weights.items():
        data = header if isinstance(header, bytes) else json.dumps(header).encode()
        (place / f"{name.replace('_', '-')}.safetensors").write_bytes(struct.pack("<Q", len(data)) + data)
    return str(place)


def download(hub: Path) -> None:
    """Write the model org/name into a cache as the hub's library does: its branch main is the revision abc."""
    save(hub / "models--org--name/snapshots/abc", BERT)
    (hub / "models--org--name/refs").mkdir()
    (hub / "models--org--name/refs/main").write_text("abc")


def entry(kind: str, *shape: object) -> dict[str, object]:
    return {"dtype": kind, "shape": [*shape], "data_offsets": [0, 0]}


@pytest.mark.parametrize(
    ("config", "millions"),
    [
        pytest.param(BERT, 109.5, id="bert-base"),
        pytest.param(
            {**BERT, "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6}, 22.7, id="MiniLM"
        ),
        pytest.param(DISTILBERT, 66.4, id="distilbert"),
        pytest.param({**BERT, "vocab_size": 50265, "max_position_embeddings": 514}, 124.6, id="roberta-base"),
        pytest.param(GPT2, 124.4, id="gpt2"),
        pytest.param(LLAMA, 1235.8, id="Llama 3.2 1B"),
        pytest.param({"text_config": LLAMA, "vision_config": {}}, 1235.8, id="beside another"),
    ],
)
def test_weights_are_counted_by_a_configuration(tmp_path: Path, config: Mapping[str, object], millions: float) -> None:
    model = read_model(save(tmp_path / "m", config))

    assert model is not None and model.weights / 1e6 == pytest.approx(millions, rel=0.01)


@pytest.mark.parametrize(
    ("files", "weights", "width"),
    [
        ({"model": {"__metadata__": {"format": "pt"}, "a": entry("F32", 10, 20), "b": entry("F32", 5)}}, 205, 4),
        ({"model": {"a": entry("BF16", 10, 20), "b": entry("F32", 5), "ids": entry("I64", 512)}}, 205, 2),
        ({"model_1": {"a": entry("BF16", 7)}, "model_2": {"b": entry("BF16", 5)}}, 12, 2),
        ({"model_1": {"a": entry("BF16", 7)}}, None, 4),
        ({"model": b"["}, None, 4),
        ({"model": b"[" * 100_000}, None, 4),
        ({"model": {"a": entry("F32", -1), "b": entry("F32", 2**40), "c": entry("F32", True), "d": 1}}, None, 4),
        ({"model": {"a": entry("F32", *[2**31] * 100)}}, None, 4),
        ({"model": {"a": entry("F32")}}, 1, 4),
    ],
)  # fmt: skip
def test_stored_weights_are_exact(tmp_path: Path, files: Mapping[str, object], weights: int | None, width: int) -> None:
    place = save(tmp_path / "m", BERT, **files)
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "m/model.safetensors.index.json").write_text(json.dumps(index))

    model = read_model(place)

    assert model is not None and (model.weights == weights or weights is None) and model.width == width
    assert weights is not None or model.weights > 109e6


def test_only_the_beginning_of_weights_is_read(tmp_path: Path) -> None:
    place = Path(save(tmp_path / "m", BERT))
    (place / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    os.mkfifo(place / "model-1.safetensors")

    model = read_model(str(place))

    assert isinstance(model, Model) and model.weights > 109e6


@pytest.mark.parametrize("header", ["pipe", "many"])
def test_files_of_weights_that_wait_or_fill_the_memory_are_not_read(tmp_path: Path, header: str) -> None:
    place = Path(save(tmp_path / "m", BERT))
    names = [f"model-{number}.safetensors" for number in range(40)]
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: name for name in names}}))
    if header == "pipe":
        os.mkfifo(place / "shared")
    else:
        text = b"{}" + b" " * (1 << 20)
        (place / "shared").write_bytes(struct.pack("<Q", len(text)) + text)
    for name in names:
        (place / name).symlink_to("shared")

    model = read_model(str(place))

    assert model is not None and model.weights > 109e6


@pytest.mark.parametrize(
    "config",
    [
        "", "{", "[]", "[" * 100_000, "{}", {**BERT, "is_encoder_decoder": True}, {**BERT, "hidden_size": "768"},
        {**BERT, "hidden_size": True}, {**BERT, "vocab_size": 2**40}, {**BERT, "num_hidden_layers": -1},
        {"text_config": BERT["hidden_size"]}, {**BERT, "attention_probs_dropout_prob": 10**399},
        json.dumps({**BERT, "attn_pdrop": 0.5}).replace("0.5", "1e400"), {**BERT, "initializer_range": float("nan")},
    ],
)  # fmt: skip
def test_what_is_no_shape_gives_no_model(tmp_path: Path, config: object) -> None:
    assert read_model(save(tmp_path / "m", config)) is None


@pytest.mark.parametrize(
    ("name", "revision", "found"),
    [
        ("HERE/local", "main", "HERE/local"),
        ("org/name", "main", "HERE/hub/models--org--name/snapshots/abc"),
        ("org/name", "abc", "HERE/hub/models--org--name/snapshots/abc"),
        ("org/name", "v1", None), ("org/other", "main", None), ("", "main", None), ("a\0b", "main", None),
        ("org/name", "../../../local", None), ("HERE/empty", "main", None),
    ],
)  # fmt: skip
def test_a_model_is_a_directory_or_in_the_cache(tmp_path: Path, name: str, revision: str, found: str | None) -> None:
    save(tmp_path / "local", BERT)
    download(tmp_path / "hub")
    (tmp_path / "empty").mkdir()

    place = find_model(name.replace("HERE", str(tmp_path)), f"{tmp_path}/hub", revision)

    assert place == (found and found.replace("HERE", str(tmp_path)))
