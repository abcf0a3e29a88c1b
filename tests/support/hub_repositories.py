"""Repositories for the hub of the tests: tiny models, data sets, metrics and data of nltk, made here."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile

from tests.support.hub import Hub

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "sleeps", "the", "cat", "dog", "and", "runs", "mat", "a")
BERT = {
    "model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": len(WORDS), "hidden_size": 16,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 512,
}  # fmt: skip
BART = {
    "model_type": "bart", "architectures": ["BartForConditionalGeneration"], "vocab_size": len(WORDS), "d_model": 16,
    "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 512, "pad_token_id": 0,
    "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2, "forced_eos_token_id": 3,
}  # fmt: skip
# As big as no other file, so that what is left of it after a break shows.
MUCH = 2_000_000
ROWS = 8
METRIC = """\
import datasets
import evaluate
from .{name}_part import number


class Ours(evaluate.Metric):
    def _info(self):
        features = datasets.Features({{"predictions": {type}, "references": {type}}})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references, **_):
        return {{"{name}": number(predictions, references)}}
"""
PART = """\
def number(predictions, references):
    return sum(a == b for a, b in zip(predictions, references)) / len(references)
"""
TEXT, NUMBER, ANY = 'datasets.Value("string")', 'datasets.Value("int64")', "datasets.Json()"
CARD = """\
---
configs:
- config_name: mrpc
  data_files:
  - {split: train, path: mrpc/train.jsonl}
  - {split: validation, path: mrpc/validation.jsonl}
  - {split: test, path: mrpc/test.jsonl}
dataset_info:
- config_name: mrpc
  features:
  - {name: sentence1, dtype: string}
  - {name: sentence2, dtype: string}
  - {name: idx, dtype: int32}
  - name: label
    dtype:
      class_label:
        names: {'0': different, '1': same}
---
"""


def safetensors(size: int) -> bytes:
    """Return a file of weights with one tensor that no model has; a model then begins with weights of its own."""
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, "unused": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    ).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def model(config: dict[str, object]) -> dict[str, bytes]:
    """Return a model with a tokenizer for the words, and files that no task reads."""
    return {
        "config.json": json.dumps(config).encode(),
        "vocab.txt": "\n".join(WORDS).encode(),
        "tokenizer_config.json": json.dumps({"tokenizer_class": "BertTokenizer", "model_max_length": 64}).encode(),
        "model.safetensors": safetensors(MUCH),
        "pytorch_model.bin": b"of no use beside the other form",
        "onnx/model.onnx": b"of no use either",
    }


def rows(row: dict[str, object]) -> bytes:
    """Return JSON lines; the name and the number of a row differ."""
    return b"".join(json.dumps({**row, **number(row, index)}).encode() + b"\n" for index in range(ROWS))


def number(row: dict[str, object], index: int) -> dict[str, object]:
    return {"id": f"q{index}"} if "id" in row else {"idx": index, "label": index % 2} if "idx" in row else {}


def splits(row: dict[str, object], place: str = "") -> dict[str, bytes]:
    return {f"{place}{split}.jsonl": rows(row) for split in ("train", "validation", "test")}


def metric(name: str, kind: str) -> dict[str, bytes]:
    """Return a metric whose script imports another file, as that of squad does."""
    return {f"{name}.py": METRIC.format(name=name, type=kind).encode(), f"{name}_part.py": PART.encode()}


def fill(hub: Hub) -> None:
    """Put everything there that qa, glue and summarization need."""
    question = {"id": "", "title": "t", "context": "the cat sleeps", "question": "who sleeps",
                "answers": {"text": ["cat"], "answer_start": [4]}}  # fmt: skip
    pair = {"sentence1": "the cat sleeps", "sentence2": "the dog runs", "idx": 0, "label": 0}
    news = {"article": "the cat sleeps and the dog runs", "highlights": "cat and dog"}
    hub.repositories.update(
        {
            "models/ours/bert": model(dict(BERT)),
            "models/distilbert/distilbert-base-uncased": model(dict(BERT)),
            "models/ours/bart": model(dict(BART)),
            "datasets/ours/questions": splits(dict(question)),
            "datasets/rajpurkar/squad": splits(dict(question)),
            "datasets/nyu-mll/glue": {"README.md": CARD.encode(), **splits(dict(pair), "mrpc/")},
            "datasets/ours/news": splits(dict(news)),
            "spaces/evaluate-metric/squad": metric("squad", ANY),
            "spaces/evaluate-metric/squad_v2": metric("squad_v2", ANY),
            "spaces/evaluate-metric/glue": metric("glue", NUMBER),
            "spaces/evaluate-metric/rouge": metric("rouge", TEXT),
        }
    )
    fill_nltk(hub)


def fill_nltk(hub: Hub) -> None:
    """Put the two packages there that sentences are found with, and their index."""
    rows = []
    for name in ("punkt", "punkt_tab"):
        data, said = io.BytesIO(), "of the tests"
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr(f"{name}/english/README", said)
            for file in ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt"):
                archive.writestr(f"{name}/english/{file}", "")
        packed = data.getvalue()
        path = f"/nltk/nltk_data/gh-pages/packages/tokenizers/{name}.zip"
        hub.pages[path] = packed
        md5, sha = hashlib.md5(packed).hexdigest(), hashlib.sha256(packed).hexdigest()  # what nltk compares
        rows.append(
            f'<package id="{name}" name="{name}" subdir="tokenizers" unzip="1" size="{len(packed)}" '
            f'unzipped_size="{len(said)}" checksum="{md5}" sha256_checksum="{sha}" url="https://raw.githubusercontent.com{path}"/>'
        )
    index = f"<nltk_data><packages>{''.join(rows)}</packages><collections></collections></nltk_data>"
    hub.pages["/nltk/nltk_data/gh-pages/index.xml"] = index.encode()
