"""Batches of examples of like length, padded to their longest."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.tasks.batches import advise, check_order
from entrypoint.tasks.table import find_task
from tests.support.starts import Container

STACK = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "/site")
TEXT = "tokenizer = AutoTokenizer.from_pretrained(name)\n"
TRAINS = TEXT + "trainer = Trainer(model, args, train_dataset=data)\n"
FIXED = TRAINS + 'data.map(lambda each: tokenizer(each["text"], padding="max_length"))\n'
# A copy of an example: its arguments decide.
COPY = FIXED.replace("Trainer(", "QuestionAnsweringTrainer(") + "parser = HfArgumentParser(classes)\n"
DECLARED = COPY + "    pad_to_max_length: bool = field(\n        default=True,\n"
PADDING = 'DataCollatorWithPadding(tokenizer) in place of padding="max_length"'
GROUPING, OLD = (
    f"{argument} in TrainingArguments"
    for argument in ('train_sampling_strategy="group_by_length"', "group_by_length=True")
)


@pytest.mark.parametrize(
    ("source", "typed", "release", "said"),
    [
        (FIXED, {}, "5.23.0", (PADDING, GROUPING)),
        (FIXED, {}, "4.46.0", (PADDING, OLD)),
        (FIXED.replace("Trainer", "Seq2SeqTrainer"), {}, "5.23.0", (PADDING, GROUPING)),
        (FIXED.replace("padding=", '"padding": '), {}, "5.23.0", (PADDING, GROUPING)),
        (TRAINS, {}, "5.23.0", (GROUPING,)),
        (TRAINS + "# group_by_length=True\n", {}, "5.23.0", (GROUPING,)),
        (FIXED, {"group_by_length": True}, "5.23.0", (PADDING,)),
        # where the order of examples counts, padding is all that may be changed
        (FIXED + "trainer.predict(data)\n", {}, "5.23.0", (PADDING,)),
        (FIXED + "trainer.predict(data)\n", {}, "4.45.0", (PADDING, OLD)),
        (TRAINS + "trainer.predict(data)\n", {}, "5.23.0", ()),
        (DECLARED, {}, "5.23.0", ("--pad_to_max_length False", "--train_sampling_strategy group_by_length")),
        (DECLARED, {}, "4.45.0", ("--pad_to_max_length False", "--group_by_length True")),
        (DECLARED + "trainer.predict(data)\n", {}, "5.23.0", ("--pad_to_max_length False",)),
        (DECLARED, {"pad_to_max_length": "False", "group_by_length": "True"}, "4.45.0", ()),
        (DECLARED.replace("=True,", "=False,"), {"group_by_length": "True"}, "4.45.0", ()),
        # it has it all
        (TRAINS + "args = TrainingArguments(group_by_length=True)\n", {}, "5.23.0", ()),
        (TRAINS, {"train_sampling_strategy": "group_by_length"}, "5.23.0", ()),
        # there are no lengths, or none that a Trainer could put together
        (TRAINS + "block_size = 128\n", {}, "5.23.0", ()),
        (TRAINS + "data = load_dataset(name, streaming=True)\n", {}, "5.23.0", ()),
        (TRAINS.replace(TEXT, "images\n"), {}, "5.23.0", ()),
        (FIXED + "processor = AutoImageProcessor.from_pretrained(name)\n", {}, "5.23.0", ()),
        (TRAINS + "from trl import DPOTrainer\n", {}, "5.23.0", ()),
        (FIXED.replace("trainer = Trainer(", "# as the Trainer does it: train("), {}, "5.23.0", ()),
        (TEXT + "from accelerate import Accelerator\n", {}, "5.23.0", ()),
        ("", {}, "5.23.0", ()),
    ],
)
def test_a_script_is_told_what_its_batches_could_gain(
    source: str, typed: dict[str, object], release: str, said: tuple[str, ...]
) -> None:
    notes = advise("train.py", source, typed, STACK._replace(transformers=release))

    assert [note.partition(", with ")[2] for note in notes] == ([" and ".join(said)] if said else [])


@pytest.mark.parametrize(
    ("line", "node", "told"), [("{}", "0", 1), ("torchrun {}", "0", 1), ("{}", "1", 0), ("cat {}", "0", 0)]
)
def test_one_node_of_a_training_says_it_once(tmp_path: Path, line: str, node: str, told: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(FIXED)
    nodes = {"PET_NNODES": "2", "PET_NODE_RANK": node, "PET_MASTER_ADDR": "pod0"}

    started = Container(tmp_path).furnish().start(line.format(script), nodes)

    assert started.err.count(PADDING) == told


@pytest.mark.parametrize(
    ("name", "arguments", "release", "value"),
    [
        ("qa", {"group_by_length": True, "do_eval": True}, "4.46.0", "--group_by_length and --do_eval"),
        ("qa", {"group_by_length": True, "do_eval": True}, "4.45.2", ""),
        ("qa", {"group_by_length": "False", "do_eval": True}, "4.46.0", ""),
        ("qa", {"train_sampling_strategy": "group_by_length", "eval_strategy": "steps"}, "5.23.0",
         "--group_by_length and --eval_strategy"),
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
        check_order(find_task(name), arguments, STACK._replace(transformers=release))
    except Refusal as refusal:
        assert (refusal.value, refusal.code) == (value, 2)
    else:
        assert not value
