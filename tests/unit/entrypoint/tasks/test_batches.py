"""Batches of examples of like length, padded to their longest."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.tasks.batches import advise, check_order
from entrypoint.tasks.table import find_task
from tests.support.starts import GLOO, Container

TEXT = "tokenizer = AutoTokenizer.from_pretrained(name)\n"
TRAINS = TEXT + "trainer = Seq2SeqTrainer(model, args, train_dataset=data)\n"


@pytest.mark.parametrize(
    ("name", "arguments", "release", "value"),
    [
        ("qa", {"group_by_length": True, "do_eval": True}, "4.46.0", "--group_by_length and --do_eval"),
        ("qa", {"group_by_length": True, "do_eval": True}, "4.45.2", ""),
        ("qa", {"group_by_length": "False", "do_eval": True}, "4.46.0", ""),
        ("qa", {"train_sampling_strategy": "group_by_length", "eval_strategy": "steps"}, "5.23.0",
         "--group_by_length and --eval_strategy"),
        ("qa", {"group_by_length": True, "evaluation_strategy": "steps"}, "4.46.0",
         "--group_by_length and --evaluation_strategy"),
        ("qa", {"train_sampling_strategy": "group_by_length", "do_train": True, "do_eval": False}, "5.23.0", ""),
        ("glue", {"train_sampling_strategy": "group_by_length", "do_eval": True}, "5.23.0", ""),
        ("glue", {"train_sampling_strategy": "group_by_length", "do_predict": True}, "5.23.0",
         "--group_by_length and --do_predict"),
    ],
)  # fmt: skip
def test_predictions_in_another_order_than_the_examples_are_refused(
    name: str, arguments: dict[str, object], release: str, value: str
) -> None:
    try:
        check_order(find_task(name), arguments, GLOO._replace(transformers=release))
    except Refusal as refusal:
        assert (refusal.value, refusal.code) == (value, 2)
    else:
        assert not value


@pytest.mark.parametrize(
    ("source", "words", "told"),
    [
        (TRAINS, [], True),
        (TRAINS, ["--group_by_length", "True"], False),
        (TRAINS + 'args = TrainingArguments(train_sampling_strategy="group_by_length")', [], False),
        (TRAINS + "data = load_dataset(name, streaming=True)", [], False),
        (TRAINS + "block_size = 128", [], False),
        (TRAINS.replace(TEXT, "images = []"), [], False),
        (TRAINS.replace("trainer =", "# trainer ="), [], False),
        (TEXT + "from accelerate import Accelerator", [], False),
        ("", [], False),
    ],
)
def test_a_script_is_told_what_its_batches_could_gain(source: str, words: list[str], told: bool) -> None:
    assert bool(advise("train.py", source, words)) is told


@pytest.mark.parametrize(
    ("line", "node", "told"), [("{}", "0", 1), ("torchrun {}", "0", 1), ("{}", "1", 0), ("cat {}", "0", 0)]
)
def test_one_node_of_a_training_says_it_once(tmp_path: Path, line: str, node: str, told: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    nodes = {"PET_NNODES": "2", "PET_NODE_RANK": node, "PET_MASTER_ADDR": "pod0"}

    started = Container(tmp_path).furnish().start(line.format(script), nodes)

    assert started.err.count("train.py may train") == told
