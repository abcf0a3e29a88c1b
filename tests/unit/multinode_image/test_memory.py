"""What a training needs of memory, by its model, and what is advised where there is less."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest import mock

import pytest

from multinode_image.explain import list_facts, plan_as_text
from multinode_image.machine.limits import Limits
from multinode_image.memory.estimate import AGENT, Workload, estimate_rank, find_needed, load_model, read_workload
from multinode_image.memory.model import Model, find_model, read_model
from multinode_image.tasks.command import SCRIPT, Command
from multinode_image.world.model import World
from scripts.pages.memory import Peak, read_measured
from tests.support.starts import GLOO, SMOKE, make_facts, make_plan, place

BERT = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
    "vocab_size": 30522, "max_position_embeddings": 512, "architectures": ["BertForMaskedLM"],
}  # fmt: skip
DISTILBERT = {
    "dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12, "vocab_size": 30522, "max_position_embeddings": 512,
}  # fmt: skip
OPT = {
    "hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50272,
    "max_position_embeddings": 2048,
}  # fmt: skip
MPT = {"d_model": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 50432}
CEREBRAS = {"n_embd": 768, "n_inner": 3072, "n_layer": 10, "n_head": 12, "vocab_size": 50257, "n_positions": 2048}
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
    ("config", "millions", "counted"),
    [
        pytest.param(BERT, 109.5, 109_481_472, id="bert-base"),
        pytest.param(
            {**BERT, "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6}, 22.7, 22_712_832,
            id="MiniLM",
        ),
        pytest.param(DISTILBERT, 66.4, 66_954_240, id="distilbert"),
        pytest.param(GPT2, 124.4, 125_031_168, id="gpt2"),
        pytest.param(OPT, 125.2, 125_829_120, id="OPT 125M"),
        pytest.param(CEREBRAS, 111.0, 111_641_856, id="Cerebras-GPT 111M"),
        pytest.param({**CEREBRAS, "n_inner": 6144}, 158.7, 158_858_496, id="with wider inner layers"),
        pytest.param({**OPT, "ffn_dim": 6144}, 182.4, 182_489_088, id="and with wider ones of OPT"),
        pytest.param(MPT, 6649.3, 6_667_517_952, id="MPT 7B"),
        pytest.param(LLAMA, 1235.8, 1_235_814_400, id="Llama 3.2 1B"),
        pytest.param({"text_config": LLAMA, "vision_config": {}}, 1235.8, 1_235_814_400, id="beside another"),
    ],
)  # fmt: skip
def test_weights_are_counted_by_a_configuration(
    tmp_path: Path, config: Mapping[str, object], millions: float, counted: int
) -> None:
    """They are near those that are published, in millions, and as many as ever."""
    model = read_model(save(tmp_path / "m", config))

    assert model is not None and model.weights == counted == pytest.approx(millions * 1e6, rel=0.01)


SMALL = {
    "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 10,
    "rms_norm_eps": 1e-5,
}  # fmt: skip
# Of each layer: four of attention, 3 x 8 x 16 of its inner ones, two norms; beside them both tables and a norm.
PER_LAYER, BESIDE = 4 * 8 * 8 + 3 * 8 * 16 + 2 * 8, 2 * 10 * 8 + 8


@pytest.mark.parametrize(
    ("more", "weights"),
    [
        ({}, 2 * PER_LAYER + BESIDE),
        ({"num_key_value_heads": 1}, 2 * (PER_LAYER - 2 * 8 * 2 * 3) + BESIDE),
        ({"head_dim": 4}, 2 * (PER_LAYER + 4 * 8 * 8) + BESIDE),
        ({"tie_word_embeddings": True}, 2 * PER_LAYER + BESIDE - 80),
        ({"num_hidden_layers": 1}, PER_LAYER + BESIDE),
    ],
)
def test_the_weights_of_a_small_model_are_counted_to_the_last(
    tmp_path: Path, more: Mapping[str, object], weights: int
) -> None:
    model = read_model(save(tmp_path / "m", {**SMALL, **more}))

    assert model is not None and model.weights == weights


@pytest.mark.parametrize(
    ("files", "weights", "width"),
    [
        ({"model": {"__metadata__": {"format": "pt"}, "a": entry("F32", 10, 20), "b": entry("F32", 5)}}, 205, 4),
        ({"model": {"a": entry("BF16", 10, 20), "b": entry("F32", 5), "ids": entry("I64", 512)}}, 205, 2),
        ({"model": {"a": entry("F16", 3), "b": entry("F64", 5)}}, 8, 8),
        ({"model": {"a": entry("F16", 3)}}, 3, 2),
        ({"model_1": {"a": entry("BF16", 7)}, "model_2": {"b": entry("BF16", 5)}}, 12, 2),
        ({"model_1": {"a": entry("BF16", 7)}}, None, 4),
        ({"model": b"["}, None, 4),
        ({"model": b"[" * 100_000}, None, 4),
        ({"model": {"a": entry("F32", -1), "b": entry("F32", 2**40), "c": entry("F32", True), "d": 1}}, None, 4),
        ({"model": {"a": entry("F32", *[2**31] * 100)}}, None, 4),
        ({"model": {"a": entry("F32")}}, 1, 4),
        *(({"model": {"a": entry("F32", length)}}, None, 4) for length in (True, "7", 2.0, -1, 2**40)),
    ],
)  # fmt: skip
def test_stored_weights_are_exact(tmp_path: Path, files: Mapping[str, object], weights: int | None, width: int) -> None:
    place = save(tmp_path / "m", BERT, **files)
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "m/model.safetensors.index.json").write_text(json.dumps(index))

    model = read_model(place)

    assert model is not None and (model.weights == weights or weights is None) and model.width == width
    assert weights is not None or model.weights > 109e6


def test_no_file_outside_of_a_model_is_read(tmp_path: Path) -> None:
    place = save(tmp_path / "m", BERT)
    save(tmp_path / "other", BERT, model={"a": entry("F16", 3)})
    index = {"weight_map": {"a": "../other/model.safetensors"}}
    (tmp_path / "m/model.safetensors.index.json").write_text(json.dumps(index))

    model = read_model(place)

    assert model is not None and (model.weights > 109e6, model.width) == (True, 4)


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
        *({**BERT, name: 0} for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")),
    ],
)  # fmt: skip
def test_what_is_no_shape_gives_no_model(tmp_path: Path, config: object) -> None:
    assert read_model(save(tmp_path / "m", config)) is None


@pytest.mark.parametrize("name", ["attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"])
@pytest.mark.parametrize("rate", [0, 0.25])
def test_the_dropout_of_attention_is_read(tmp_path: Path, name: str, rate: float) -> None:
    model = read_model(save(tmp_path / "m", {**BERT, name: rate}))

    assert model is not None and model.dropout == rate


@pytest.mark.parametrize(
    ("name", "revision", "directory"),
    [
        ("HERE/local", "main", "HERE/local"),
        ("org/name", "main", "HERE/hub/models--org--name/snapshots/abc"),
        ("org/name", "abc", "HERE/hub/models--org--name/snapshots/abc"),
        ("org/name", "v1", None), ("org/other", "main", None), ("", "main", None), ("a\0b", "main", None),
        ("org/name", "../../../local", None), ("HERE/empty", "main", None),
    ],
)  # fmt: skip
def test_a_model_is_a_directory_or_in_the_cache(
    tmp_path: Path, name: str, revision: str, directory: str | None
) -> None:
    save(tmp_path / "local", BERT)
    download(tmp_path / "hub")
    (tmp_path / "empty").mkdir()

    place = find_model(name.replace("HERE", str(tmp_path)), f"{tmp_path}/hub", revision)

    assert place == (directory and directory.replace("HERE", str(tmp_path)))


MEASURED = read_measured()
MODEL = Model(110_000_000, 4, 768, 3072, 12, 12, 30522, 512, False, "", 0.1)


@pytest.mark.parametrize("peak", MEASURED.peaks, ids=str)
def test_it_is_near_what_was_measured(peak: Peak) -> None:
    assert MEASURED.estimate(peak) == pytest.approx(peak.measured, rel=0.1)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (Workload(8, 128, recomputes=True), Workload(8, 128)),
        (Workload(8, 128, optimizer="adafactor"), Workload(8, 128)),
        (Workload(8, 128), Workload(8, 128, several=True)),
        (Workload(8, 128), Workload(8, 128, accumulates=True)),
        (Workload(32, 128, bf16=True), Workload(32, 128)),
        (Workload(8, 128), Workload(16, 128)),
        (Workload(32, 128), Workload(8, 512)),
    ],
)
def test_what_takes_more(less: Workload, more: Workload) -> None:
    assert estimate_rank(MODEL, less) < estimate_rank(MODEL, more)


OF_LLAMA = Model(1_235_814_400, 2, 2048, 8192, 16, 32, 128256, 131072, True, "", 0.0)


@pytest.mark.parametrize(
    ("model", "training", "taken"),
    [
        (MODEL, Workload(8, 128), 2_850_920_960),
        (MODEL, Workload(32, 128, bf16=True, several=True), 5_436_106_496),
        (MODEL, Workload(64, 512, recomputes=True, optimizer="adafactor"), 6_563_683_840),
        (OF_LLAMA._replace(dropout=0.1), Workload(64, 512), 188_390_715_392),
        (OF_LLAMA._replace(dropout=0.1, width=4), Workload(64, 512), 234_460_307_456),
        (OF_LLAMA, Workload(2, 64, accumulates=True), 10_775_707_648),
        (OF_LLAMA, Workload(2, 64, bf16=True), 10_473_717_760),
        *(
            (MODEL._replace(head=f"Bert{head}"), Workload(16, 128, accumulates=True, optimizer="sgd"), 4_354_784_256)
            for head in ("ForMaskedLM", "ForCausalLM", "LMHeadModel", "ForPreTraining")
        ),
        *(
            (MODEL, Workload(8, 128, optimizer=optimizer), 2_410_920_960)
            for optimizer in ("adagrad", "rmsprop", "lion_32bit")
        ),
    ],
)
def test_what_is_estimated_is_what_it_was(model: Model, training: Workload, taken: int) -> None:
    """The measurements allow a tenth; these hold every part of the sum."""
    assert estimate_rank(model, training) == taken


@pytest.mark.parametrize(("release", "width"), [("4.57.6", 4), ("5.0.0", 2), ("5.23.0", 2)])
def test_older_releases_load_all_weights_in_float32(tmp_path: Path, release: str, width: int) -> None:
    place = save(tmp_path / "m", BERT, model={"a": entry("BF16", 7)})
    facts = make_facts({"HOME": str(tmp_path)}, GLOO._replace(transformers=release))

    model = load_model(facts, {"model": place})

    assert model and model.width == width
    assert load_model(facts, {}) is None


OF_66_MILLION = Model(66_000_000, 4, 768, 3072, 6, 12, 30522, 512, False, "", 0.1)


def explain(place: Path, words: Sequence[str], gigabytes: float = 64, nproc: int = 1) -> tuple[str, list[str]]:
    """Return the row on memory and the warnings on it, of a script beside a model and a downloaded one."""
    save(place / "model", BERT)
    download(place / ".cache/huggingface/hub")
    facts = make_facts({"HOME": str(place)}, limits=Limits(1 << 30, int(gigabytes * 2**30), frozenset()))
    plan = make_plan(Command(SCRIPT, str(place / "train.py"), [*words]), facts, nproc)
    rows = [row.split(maxsplit=1) for row in plan_as_text(plan).splitlines()]
    notes = [text for name, text in rows if name == "note" and "memory" in text]
    told = list_facts(plan)["notes"]
    assert isinstance(told, list) and [note for note in told if "want of memory" in note] == notes
    return next((text for name, text in rows if name == "memory"), ""), notes


@pytest.mark.parametrize(
    ("words", "gigabytes", "nproc", "said", "advised"),
    [
        ("--model_name_or_path ~/model", 64, 1, "109 million weights, 8 x 128 words in float32", ""),
        ("--model ~/model --bf16 --max_length 64 --per_device_train_batch_size 2", 64, 1, "2 x 64 words in bf", ""),
        ("--model_name_or_path ~/model --max_seq_length 9999", 64, 1, "8 x 512 words", ""),
        ("--model_name_or_path ~/model", 2.7, 1, "of 2.7 GB", "--per_device_train_batch_size"),
        ("--model_name_or_path ~/model", 1, 1, "of 1.0 GB", "--optim adafactor"),
        ("--model_name_or_path ~/model", 4, 2, " here, of 4.0 GB", "--nproc"),
        ("--model_name ~/model --max_seq_len 64", 64, 1, "8 x 64 words", ""),
        ("--model_path ~/model --max_source_length 64", 64, 1, "8 x 64 words", ""),
        ("--model_name_or_path org/name", 64, 1, "109 million weights", ""),
        ("--model_name_or_path org/name --model_revision abc", 64, 1, "109 million weights", ""),
        ("--model_name_or_path org/name --model_revision v1", 64, 1, "", ""),
        ("--model_name_or_path ~/none", 1, 1, "", ""),
        ("--model_name_or_path", 1, 1, "", ""),
        ("--data ~/model", 1, 1, "", ""),
    ],
)  # fmt: skip
def test_a_training_that_would_be_killed_is_told_before(
    tmp_path: Path, words: str, gigabytes: float, nproc: int, said: str, advised: str
) -> None:
    row, notes = explain(tmp_path, words.split(), gigabytes, nproc)

    assert said in row and bool(row) == bool(said)
    assert [advised in note for note in notes] == ([True] if advised else [])
    assert ["--nproc" in note for note in notes] == [nproc > 1 for _ in notes], "one rank cannot be fewer"


def test_where_the_number_of_ranks_of_a_node_is_not_known_one_counts(tmp_path: Path) -> None:
    save(tmp_path / "model", BERT)
    launcher = place(World("mpijob-launcher", "role"), Command(SCRIPT, "/train.py", []))

    needed = find_needed(launcher, make_facts({"HOME": str(tmp_path)}), {"model": f"{tmp_path}/model"})

    assert needed and needed.node == needed.rank
    two = place(World("alone", "", local_size=2), Command(SCRIPT, "/train.py", []))
    needed = find_needed(two, make_facts({"HOME": str(tmp_path)}), {"model": f"{tmp_path}/model"})
    assert needed and needed.node == 2 * needed.rank + AGENT


@pytest.mark.parametrize(
    ("flags", "kind"), [((), "bfloat16"), (("avx2",), "float32"), (("avx2", "amx_bf16"), "bfloat16")]
)
def test_bf16_counts_where_a_processor_has_it(tmp_path: Path, flags: Sequence[str], kind: str) -> None:
    facts = make_facts({}, limits=Limits(1 << 30, 1 << 36, frozenset(flags)))
    alone = place(World("alone", "", local_size=1), Command(SCRIPT, "/train.py", []))

    needed = find_needed(alone, facts, {"model": save(tmp_path / "model", BERT), "bf16": True})

    assert needed and needed.about == f"109 million weights, 8 x 128 words in {kind}"


def test_smoke_has_no_model_to_read() -> None:
    assert "memory" not in list_facts(make_plan(SMOKE, make_facts({}), 1))


@pytest.mark.parametrize(
    ("arguments", "training"),
    [
        ({}, Workload(8, 128)),
        ({"per_device_train_batch_size": "32", "block_size": 64, "bf16": "False"}, Workload(32, 64)),
        ({"bf16": True, "gradient_accumulation_steps": "4", "optim": "adafactor", "gradient_checkpointing": True},
         Workload(8, 128, bf16=True, accumulates=True, recomputes=True, optimizer="adafactor")),
        (json.loads('{"per_device_train_batch_size": null, "max_length": [1]}'), Workload(8, 128)),
    ],
)  # fmt: skip
def test_arguments_that_count(arguments: dict[str, object], training: Workload) -> None:
    assert read_workload(OF_66_MILLION, arguments, several=False) == training
    assert read_workload(OF_66_MILLION, arguments, several=True) == training._replace(several=True)


@pytest.mark.parametrize("name", ["max_seq_length", "max_length", "block_size", "max_seq_len", "max_source_length"])
@pytest.mark.parametrize(("places", "length"), [(0, 64), (512, 64), (32, 32)])
def test_a_batch_is_as_long_as_is_typed_and_a_model_has_places_for(name: str, places: int, length: int) -> None:
    model = OF_66_MILLION._replace(places=places)  # 0 where nobody knows

    assert read_workload(model, {name: "64"}, several=False).length == length


@pytest.mark.parametrize("error", [OverflowError("int too large"), MemoryError(), OSError(5, "Input/output error")])
def test_an_estimate_that_fails_ends_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("multinode_image.memory.estimate.read_model", mock.Mock(side_effect=error))

    assert explain(tmp_path, ["--model", "~/model"], 1) == ("", [])
