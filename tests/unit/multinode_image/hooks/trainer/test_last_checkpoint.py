"""When a Trainer writes one more checkpoint and ends; with stand-ins for torch and the Trainer."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

NAME = "multinode_image.hooks.trainer.last_checkpoint"
STATE = SimpleNamespace(global_step=7)


@pytest.fixture
def program() -> Iterator[Any]:
    """Import the program where neither torch nor transformers is."""
    names = ("torch", "torch.distributed", "transformers", "transformers.trainer_callback")
    modules = {name: ModuleType(name) for name in names}
    vars(modules["transformers.trainer_callback"])["TrainerCallback"] = object
    vars(modules["torch"])["distributed"] = modules["torch.distributed"]
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with mock.patch.dict(sys.modules, modules):
        sys.modules.pop(NAME, None)
        yield import_module(NAME)
        sys.modules.pop(NAME, None)
    signal.signal(signal.SIGTERM, before)


def arguments(**more: Any) -> Any:
    return SimpleNamespace(**{"world_size": 1, "process_index": 0, "save_strategy": "steps", **more})


def step(callback: Any, args: Any) -> Any:
    """Let a Trainer go on by a step; return what it is to do then."""
    control = SimpleNamespace(should_save=False, should_training_stop=False, should_evaluate=True)
    callback.on_step_end(args, STATE, control)
    return control


def test_a_step_after_sigterm_saves_and_the_trainer_ends_with_its_code(
    program: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    callback, args = program.LastCheckpoint(), arguments()
    callback.on_train_begin(args, STATE, None)
    before = step(callback, args)

    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    after = step(callback, args)

    assert (before.should_save, before.should_training_stop) == (False, False)
    assert (after.should_save, after.should_training_stop, after.should_evaluate) == (True, True, False)
    with pytest.raises(SystemExit) as ended:
        callback.on_epoch_end(args, STATE, after)
    assert ended.value.code == 143
    said = capfd.readouterr().err
    assert said.count("told to end") == 1 and "saved at step 7;" in said


@pytest.mark.parametrize(
    "more",
    [
        {"save_strategy": "no"},
        {"save_strategy": SimpleNamespace(value="no")},
        {"enable_jit_checkpoint": True},
    ],
)
def test_who_saves_nothing_or_sees_to_it_itself_is_left_alone(program: Any, more: dict[str, Any]) -> None:
    callback, args = program.LastCheckpoint(), arguments(**more)

    callback.on_train_begin(args, STATE, None)

    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert not step(callback, args).should_save


def test_a_handler_of_the_script_s_own_stays(program: Any) -> None:
    callback, mine = program.LastCheckpoint(), mock.Mock()
    signal.signal(signal.SIGTERM, mine)

    callback.on_train_begin(arguments(), STATE, None)
    callback.on_train_end(arguments(), STATE, None)

    assert signal.getsignal(signal.SIGTERM) == mine


def test_after_the_training_sigterm_ends_the_script_again(program: Any) -> None:
    callback = program.LastCheckpoint()
    callback.on_train_begin(arguments(), STATE, None)
    assert signal.getsignal(signal.SIGTERM) == callback.tell

    callback.on_train_end(arguments(), STATE, None)

    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
