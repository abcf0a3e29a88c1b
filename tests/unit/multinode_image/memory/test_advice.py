"""What `--explain` says of memory, and when it warns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from multinode_image.explain import list_facts, plan_as_text
from multinode_image.machine.limits import Limits
from multinode_image.memory.advice import find_needed, read_workload
from multinode_image.memory.estimate import Workload
from multinode_image.memory.model import Model
from multinode_image.tasks.command import SCRIPT, Command
from multinode_image.world.model import World
from tests.support.starts import SMOKE, make_facts, make_plan, place
from tests.unit.multinode_image.memory.test_model import BERT, download, save

MODEL = Model(66_000_000, 4, 768, 3072, 6, 12, 30522, 512, False, "", 0.1)


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
    assert read_workload(MODEL, arguments, several=False) == training


@pytest.mark.parametrize("error", [OverflowError("int too large"), MemoryError(), OSError(5, "Input/output error")])
def test_an_estimate_that_fails_ends_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("multinode_image.memory.advice.read_model", mock.Mock(side_effect=error))

    assert explain(tmp_path, ["--model", "~/model"], 1) == ("", [])
