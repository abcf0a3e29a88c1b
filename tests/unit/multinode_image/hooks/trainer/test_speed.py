"""What the Trainer logs of the speed, with a stand-in for it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

NAME = "multinode_image.hooks.trainer.speed"
ARGS = SimpleNamespace(train_batch_size=3, gradient_accumulation_steps=2, world_size=2)


@pytest.fixture
def hook() -> Iterator[Any]:
    modules = {name: ModuleType(name) for name in ("transformers", "transformers.trainer_callback")}
    vars(modules["transformers.trainer_callback"])["TrainerCallback"] = object
    with mock.patch.dict(sys.modules, modules):
        sys.modules.pop(NAME, None)
        yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


@pytest.mark.parametrize(
    ("logs", "waited", "added"),
    [
        ({"loss": 2.0}, None, {"samples_per_second": 24.0}),
        ({"loss": 2.0}, 1.0, {"samples_per_second": 24.0, "waiting": 20.0}),
        ({"eval_loss": 2.0}, 1.0, {}),
        ({"train_loss": 2.0}, 1.0, {}),
    ],
)
def test_a_row_with_a_loss_has_the_speed_since_the_one_before(
    hook: Any, logs: dict[str, float], waited: float | None, added: dict[str, float]
) -> None:
    """Ten steps of twelve examples in 5 s, also after a checkpoint; the row that was kept has it, too."""
    state, clock, seen = SimpleNamespace(global_step=100, log_history=[]), mock.Mock(), SimpleNamespace(waited=None)
    with mock.patch("time.monotonic", clock), mock.patch.object(hook, "SEEN", seen):
        clock.return_value = 50.0
        callback = hook.Speed()
        callback.on_train_begin(ARGS, state, None)
        seen.waited, clock.return_value, state.global_step = waited, 55.0, 110
        given = dict(logs)
        state.log_history.append({**logs, "step": 110})
        callback.on_log(ARGS, state, None, logs=given)
    assert given == {**logs, **added} and state.log_history == [{**logs, "step": 110, **added}]


def test_two_rows_of_one_step_are_no_speed(hook: Any) -> None:
    state = SimpleNamespace(global_step=0, log_history=[])
    callback = hook.Speed()
    callback.on_train_begin(ARGS, state, None)
    callback.on_log(ARGS, state, None, logs=(given := {"loss": 1.0}))
    assert given == {"loss": 1.0}
