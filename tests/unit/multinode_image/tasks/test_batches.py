"""Batches of examples of like length, padded to their longest."""

from __future__ import annotations

from pathlib import Path

import pytest

from multinode_image.errors import Refusal
from multinode_image.tasks.batches import advise_padding, check_order
from multinode_image.tasks.table import find_task
from tests.support.starts import GLOO, Container

PADS = "tokens = tokenizer(text, truncation=True, padding='max_length')\n"


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
    ("source", "told"),
    [
        (PADS, True),
        ('data.map(lambda row: tokenizer(\n    row["text"],\n    padding = "max_length",\n))', True),
        (PADS.replace("'max_length'", "True"), False),
        (PADS.replace("padding", "# padding"), False),
        ("trainer = SFTTrainer(model, SFTConfig(max_length=512), train_dataset=data)", False),
        ("", False),
    ],
)
def test_a_script_that_pads_all_texts_to_one_length_is_told_so(source: str, told: bool) -> None:
    assert bool(advise_padding("train.py", source)) is told


@pytest.mark.parametrize(
    ("line", "node", "told"), [("{}", "0", 1), ("torchrun {}", "0", 1), ("{}", "1", 0), ("cat {}", "0", 0)]
)
def test_one_node_of_a_training_says_it_once(tmp_path: Path, line: str, node: str, told: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(PADS)
    nodes = {"PET_NNODES": "2", "PET_NODE_RANK": node, "PET_MASTER_ADDR": "pod0"}

    started = Container(tmp_path).furnish().start(line.format(script), nodes)

    assert started.err.count("train.py has padding") == told
