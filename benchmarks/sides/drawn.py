"""Data that can be learned, of the lengths of real data sets, a model without weights and a tokenizer: all from a seed.

A script initializes what a file of weights lacks, by its own `--seed`.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED = 11
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
KEYS, OTHERS = ["a0", "a1"], ["b0", "b1", "b2", "b3"]
WORDS = [f"w{number}" for number in range(400)]
NO_WEIGHTS = b'{"__metadata__":{"format":"pt"}}'
SIZES: Mapping[str, Mapping[str, object]] = {
    "large": {"vocab_size": 30522},  # distilbert-base-uncased
    "small": {"vocab_size": 411, "dim": 128, "n_layers": 2, "n_heads": 4, "hidden_dim": 512},
}


@dataclass(frozen=True)
class Words:
    """A lognormal distribution of how many words a text has, by mean and standard deviation."""

    mean: float
    deviation: float

    def draw(self, source: random.Random, least: int = 2) -> list[str]:
        """Draw the words of a text."""
        spread = math.log(1 + (self.deviation / self.mean) ** 2)
        count = round(source.lognormvariate(math.log(self.mean) - spread / 2, math.sqrt(spread)))
        return source.choices(WORDS, k=max(least, min(480, count)))


# By mean lengths in words as published, a quarter more for a paragraph, whose words have more than one token. With them
# 57 % of 12 x 384 tokens are padding for SQuAD, 60 and 79 % of 32 x 128 for MRPC and QQP.
SQUAD, QUESTION = Words(150, 70), Words(10, 4)  # Rajpurkar et al. 2016: paragraphs of 117 words, questions of 10
MRPC, QQP = Words(24, 7), Words(12, 6)  # Dolan and Brockett 2005: sentences of 22 words; Quora 2017: questions of 11
SHORT = Words(45, 22)  # for a small model to learn from in a minute


def answer_questions(source: random.Random, count: int, paragraph: Words) -> list[dict[str, object]]:
    """Return paragraphs in which a key stands before the answer, and questions, which do not matter.

    A small model learns that in a minute; with two keys, of which the question has one, it learns half of it.
    """
    rows: list[dict[str, object]] = []
    for number in range(count):
        words, question = paragraph.draw(source, 24), QUESTION.draw(source)
        place = source.randrange(min(len(words), 320) - 3)
        words[place : place + 3] = [KEYS[0], *source.choices(OTHERS, k=2)]
        start = len(" ".join(words[: place + 1])) + 1
        answer = {"text": [" ".join(words[place + 1 : place + 3])], "answer_start": [start]}
        rows.append({"id": str(number), "context": " ".join(words), "question": " ".join(question), "answers": answer})
    return rows


def pair_sentences(source: random.Random, count: int, sentence: Words) -> list[dict[str, object]]:
    """Return pairs of sentences, and whether both have a key, as half of them do; all others have another word there.

    Whether both have words of one kind, whichever that is, a small model learns with some seeds only.
    """
    rows: list[dict[str, object]] = []
    for _ in range(count):
        label = source.randrange(2)
        kinds = (KEYS, KEYS) if label else source.choice(((KEYS, OTHERS), (OTHERS, KEYS), (OTHERS, OTHERS)))
        texts = [sentence.draw(source), sentence.draw(source)]
        for kind, words in zip(kinds, texts, strict=True):
            words[source.randrange(len(words))] = source.choice(kind)
        one, other = map(" ".join, texts)
        rows.append({"sentence1": one, "sentence2": other, "label": label})
    return rows


def write_all(place: Path) -> None:
    """Write models, metrics and data sets below a directory, for a container that runs there."""
    for name, sizes in SIZES.items():
        write_model(place / name, sizes)
    for metric in ("squad", "accuracy"):  # `evaluate` looks for a metric in the working directory first
        (place / metric).mkdir()
        shutil.copy(Path(__file__).parents[1] / "programs/metrics" / f"{metric}.py", place / metric)
    source = random.Random(SEED)
    for name, count, paragraph in (("squad", 432, SQUAD), ("questions", 3000, SHORT), ("questions-test", 500, SHORT)):
        rows = answer_questions(source, count, paragraph)
        (place / f"{name}.json").write_text(json.dumps({"data": rows}))  # as run_qa.py reads it
    for name, count, sentence in (
        ("mrpc", 640, MRPC),
        ("qqp", 1280, QQP),
        ("pairs", 6000, QQP),
        ("pairs-test", 500, QQP),
    ):
        rows = pair_sentences(source, count, sentence)
        (place / f"{name}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_model(place: Path, sizes: Mapping[str, object]) -> None:
    """Write a model of a size without weights, and its tokenizer."""
    place.mkdir()
    (place / "config.json").write_text(json.dumps({"model_type": "distilbert", **sizes}))
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(NO_WEIGHTS)) + NO_WEIGHTS)
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIAL}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, **names}
    (place / "tokenizer_config.json").write_text(json.dumps(settings))
    (place / "tokenizer.json").write_text(json.dumps(describe_tokenizer()))


def describe_tokenizer() -> dict[str, Any]:
    """Return a tokenizer, as the library `tokenizers` reads it, for which every word is a token."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": None,
        "added_tokens": [{"id": number, "content": name, **plain} for number, name in enumerate(SPECIAL)],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]},
        "model": {
            "type": "WordLevel", "unk_token": "[UNK]",
            "vocab": {word: number for number, word in enumerate([*SPECIAL, *KEYS, *OTHERS, *WORDS])},
        },
    }  # fmt: skip
