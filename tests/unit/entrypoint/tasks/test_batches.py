"""Batches of examples of like length, padded to their longest."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.tasks.batches import check_order
from entrypoint.tasks.table import find_task

STACK = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "/site")


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
