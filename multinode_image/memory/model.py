"""The shape of a model that arguments name: from its files in a directory or in the hub's cache, with bounded reads.

How many weights there are is exact where the files of the weights are there (safetensors); else it is counted from
config.json, for models that are built as BERT, GPT-2 or Llama are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from multinode_image.machine.files import SAFELY, is_path, list_directory, open_plain, read_file
from multinode_image.reading import parse_json

CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
# Bytes of all headers of safetensors of a model, which has 100 for a tensor; its files, and the size of any number in a
# configuration.
HEADERS, FILES, LARGEST = 16 << 20, 256, 1 << 32
# In the cache of the hub a file is a link to its content.
LINKED = SAFELY & ~os.O_NOFOLLOW
# What releases and families call the same (transformers/models/*/configuration_*.py).
NAMES = {
    "hidden": ("hidden_size", "dim", "n_embd", "d_model"),
    "inner": ("intermediate_size", "hidden_dim", "n_inner", "ffn_dim"),
    "layers": ("num_hidden_layers", "n_layers", "n_layer"),
    "heads": ("num_attention_heads", "n_heads", "n_head"),
    "words": ("vocab_size",),
    "places": ("max_position_embeddings", "n_positions"),
}
# An encoder and a decoder have layers of two kinds, which nobody counts here.
TWO_SIDED = "is_encoder_decoder"
# What only models like Llama have: a gate beside the inner layer, and no biases, places or dropout.
GATED = "rms_norm_eps"
# The bytes of a number in safetensors; others are no weights.
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


class Model(NamedTuple):
    """A model: its weights, the bytes of one, and its shape; head: the class of transformers that it was saved as.

    group: the heads that share keys and values, as a part of all; is_gated: whether it is built as Llama is.
    """

    weights: int
    width: int
    hidden: int
    inner: int
    layers: int
    heads: int
    words: int
    places: int
    is_gated: bool
    head: str
    dropout: float


def find_model(name: str, cache: str, revision: str = "main") -> str | None:
    """Return the directory of a model: the name itself, or that of its last download; None if neither is there."""
    if not is_path(name) or not name:
        return None
    if os.path.isfile(f"{name}/{CONFIG}"):
        return name
    home = f"{cache}/models--{name.strip('/').replace('/', '--')}"
    commit = (read_file(f"{home}/refs/{revision}") or revision).strip()
    place = f"{home}/snapshots/{os.path.basename(commit)}"
    return place if os.path.isfile(f"{place}/{CONFIG}") else None


def read_model(directory: str) -> Model | None:
    """Return the model in a directory; None where its shape cannot be read."""
    config = load_object(f"{directory}/{CONFIG}")
    return None if config is None else parse_model(config, count_stored(directory))


def parse_model(config: Mapping[str, object], stored: tuple[int, int] | None = None) -> Model | None:
    """Return the model of a configuration; None where its shape cannot be read. stored: weights, and bytes of one."""
    if config.get(TWO_SIDED):
        return None
    config = {**config, **(text if isinstance(text := config.get("text_config"), dict) else {})}
    shape = {name: take_number(config, names) for name, names in NAMES.items()}
    hidden = shape["hidden"]
    inner = shape["inner"] or 4 * hidden
    if not (hidden and shape["layers"] and shape["heads"] and shape["words"]):
        return None
    kinds = config.get("architectures")
    dropouts = (config.get(name) for name in ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"))
    is_gated = GATED in config
    usual = 0.0 if is_gated else 0.1
    return Model(
        weights=stored[0] if stored else count_weights(config, {**shape, "inner": inner}),
        width=stored[1] if stored else 4,
        hidden=hidden,
        inner=inner,
        layers=shape["layers"],
        heads=shape["heads"],
        words=shape["words"],
        places=shape["places"],
        is_gated=is_gated,
        head=str(kinds[0]) if isinstance(kinds, list) and kinds else "",
        dropout=next((float(rate) for rate in dropouts if isinstance(rate, (int, float))), usual),
    )


def count_weights(config: Mapping[str, object], shape: Mapping[str, int]) -> int:
    """Count the weights of a model that is built as BERT, GPT-2 or Llama is, without those of a small head."""
    hidden, inner, layers, words = (shape[name] for name in ("hidden", "inner", "layers", "words"))
    if GATED in config:
        shared = take_number(config, ("num_key_value_heads",)) or shape["heads"]
        size = take_number(config, ("head_dim",)) or hidden // shape["heads"]
        attention = 2 * hidden * size * (shape["heads"] + shared)
        tables = 1 if config.get("tie_word_embeddings", False) else 2
        return words * hidden * tables + layers * (attention + 3 * hidden * inner + 2 * hidden) + hidden
    layer = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
    return (words + shape["places"] + 2) * hidden + layers * layer + 2 * hidden + hidden * hidden


def count_stored(directory: str) -> tuple[int, int] | None:
    """Return how many weights are stored, and the bytes of one of most of them; None where that cannot be read."""
    names = [SINGLE]
    if not os.path.isfile(f"{directory}/{SINGLE}"):
        index = load_object(f"{directory}/{INDEX}")
        files = index.get("weight_map") if index else None
        names = sorted({*map(str, files.values())})[:FILES] if isinstance(files, dict) else []
    known = list_directory(directory)
    counts: dict[int, int] = {}
    left = HEADERS
    for name in names:
        text = read_header(f"{directory}/{name}", left) if name in known else None
        header = None if text is None else parse_object(text)
        if text is None or header is None:
            return None
        left -= len(text)
        for kind, size in map(measure_entry, header.values()):
            counts[kind] = counts.get(kind, 0) + size
    counts.pop(0, None)
    total = sum(counts.values())
    return (total, max(counts, key=counts.__getitem__)) if 0 < total < LARGEST * 1024 else None


def measure_entry(entry: object) -> tuple[int, int]:
    """Return the bytes of a number in an entry of a header, 0 for what is no weight, and how many there are."""
    if not isinstance(entry, dict) or not isinstance(entry.get("shape"), list):
        return 0, 0
    size = 1
    for length in entry["shape"]:
        if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length < LARGEST:
            return 0, 0
        size = min(size * length, LARGEST * 1024)
    return BYTES.get(str(entry.get("dtype")), 0), size


def read_header(path: str, most: int) -> bytes | None:
    """Return the header of a file of safetensors: its length in eight bytes, then JSON; None where there is none.

    most: bytes of it, above which it is none.
    """
    try:
        file = open_plain(path, LINKED)
        if file is None:
            return None
        with file:
            length = int.from_bytes(file.read(8), "little")
            return file.read(length) if 0 < length <= most else None
    except OSError:
        return None


def load_object(path: str) -> Mapping[str, object] | None:
    """Return the object in a file of JSON; None where there is none."""
    text = read_file(path)
    return None if text is None else parse_object(text)


def parse_object(text: str | bytes) -> Mapping[str, object] | None:
    """Return the object in a text of JSON; None where there is none."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def take_number(config: Mapping[str, object], names: tuple[str, ...]) -> int:
    """Return the first of several numbers that a configuration has, 0 where it has none that can be meant."""
    values = (config.get(name) for name in names)
    numbers = (value for value in values if isinstance(value, int) and not isinstance(value, bool))
    return next((value for value in numbers if 0 < value < LARGEST), 0)
