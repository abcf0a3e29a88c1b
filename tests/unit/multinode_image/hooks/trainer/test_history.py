"""What a training keeps of itself, and when that is written; with stand-ins for torch and the Trainer."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from multinode_image.report.trainings import SPEED, WAITING, read_training

NAME = "multinode_image.hooks.trainer.history"


@pytest.fixture
def program() -> Iterator[Any]:
    """Import the program beside stand-ins of what it imports."""
    modules = {name: ModuleType(name) for name in ("transformers", "transformers.trainer_callback")}
    vars(modules["transformers.trainer_callback"])["TrainerCallback"] = object
    vars(modules["transformers"])["__version__"] = "5.23.0"
    with mock.patch.dict(sys.modules, modules):
        sys.modules.pop(NAME, None)
        yield importlib.import_module(NAME)


class Clock:
    """A training of so many seconds a step, with its callback."""

    def __init__(self, program: Any, place: Path, step: int = 0, *, is_zero: bool = True) -> None:
        self.program, self.now, self.seen = program, 1000.0, SimpleNamespace(waited=0.0)
        self.args = SimpleNamespace(
            output_dir=str(place), world_size=2, train_batch_size=4, gradient_accumulation_steps=2, bf16=True
        )
        self.state = SimpleNamespace(global_step=step, is_world_process_zero=is_zero, max_steps=100)
        self.callback = program.History()
        self.call("train_begin", model=SimpleNamespace(config=SimpleNamespace(_name_or_path="MiniLM")))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have the time of the clock, and an exchange that has been waited for."""
        with (
            mock.patch("time.monotonic", lambda: self.now),
            mock.patch("time.time", lambda: 1.79e9 + self.now),
            mock.patch.object(self.program, "SEEN", self.seen),
            mock.patch.object(self.program, "uses_float32", lambda: False),
        ):
            yield

    def call(self, event: str, **more: object) -> None:
        with self.running():
            self.tell(event, **more)

    def tell(self, event: str, **more: object) -> None:
        getattr(self.callback, f"on_{event}")(self.args, self.state, None, **more)

    def train(self, steps: int, seconds: float = 1.0) -> None:
        with self.running():
            for _ in range(steps):
                self.now += seconds
                self.seen.waited += seconds / 4
                self.state.global_step += 1
                self.tell("step_end")

    def log(self, **logs: object) -> None:
        self.call("log", logs=logs)


def read_rows(place: Path) -> list[dict[str, Any]]:
    file = place / "_multinode/history.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines() if line] if file.exists() else []


def test_a_report_tells_what_a_training_kept(program: Any, tmp_path: Path) -> None:
    clock = Clock(program, tmp_path)
    clock.train(10)
    clock.log(loss=1.5, learning_rate=2e-4, name="x")
    clock.call("train_end")
    clock.log(eval_accuracy=0.6)

    found = read_training(str(tmp_path))

    assert found.curves["loss"] == [(10, 1.5)] and found.curves["eval_accuracy"] == [(10, 0.6)]
    assert {value for _, value in found.curves[SPEED]} == {16.0}
    assert {value for _, value in found.curves[WAITING]} == {25.0}
    assert found.facts["model"] == "MiniLM" and found.facts["ranks"] == 2 and found.facts["transformers"] == "5.23.0"
    assert found.peak and found.total == 100


def test_before_a_checkpoint_nothing_is_written_where_nothing_is(program: Any, tmp_path: Path) -> None:
    clock = Clock(program, tmp_path)
    clock.train(20)
    assert [*tmp_path.iterdir()] == []
    clock.call("save")
    assert len(read_rows(tmp_path)) == 21
    clock.train(1)
    assert len(read_rows(tmp_path)) == 22


def test_a_training_that_goes_on_adds_to_its_history(program: Any, tmp_path: Path) -> None:
    for step in (0, 5):
        clock = Clock(program, tmp_path, step)
        clock.train(7)
        clock.log(loss=1.0)
        clock.call("train_end")
    file = tmp_path / "_multinode/history.jsonl"
    with file.open("a") as cut:
        cut.write('{"step"')
    assert [step for step, _ in read_training(str(tmp_path)).curves["loss"]] == [12]
    assert [start.step for start in read_training(str(tmp_path)).starts] == [0, 5]

    Clock(program, tmp_path, 0).call("train_end")

    assert [start.step for start in read_training(str(tmp_path)).starts] == [0]


def test_a_day_has_few_rows(program: Any, tmp_path: Path) -> None:
    clock = Clock(program, tmp_path)
    clock.train(8_640, 10.0)
    clock.call("train_end")

    assert 500 < len(read_rows(tmp_path)) < 2000


def test_other_ranks_write_nothing(program: Any, tmp_path: Path) -> None:
    clock = Clock(program, tmp_path, is_zero=False)
    clock.train(3)
    clock.call("save")
    clock.call("train_end")

    assert [*tmp_path.iterdir()] == []


def make_link(place: Path) -> None:
    (place / "elsewhere").mkdir()
    (place / "_multinode").symlink_to(place / "elsewhere")


def make_pipe(place: Path) -> None:
    (place / "_multinode").mkdir()
    os.mkfifo(place / "_multinode/history.jsonl")


def make_file(place: Path) -> None:
    (place / "_multinode").write_text("")


def make_other(place: Path) -> None:
    (place / "_multinode").mkdir()
    (place / "precious").write_text("precious")
    (place / "_multinode/history.jsonl").symlink_to(place / "precious")


@pytest.mark.parametrize("make", [make_link, make_pipe, make_file, make_other])
def test_no_link_is_followed_and_no_training_ends_for_it(program: Any, tmp_path: Path, make: Any) -> None:
    make(tmp_path)
    clock = Clock(program, tmp_path)
    clock.train(3)
    clock.log(loss=1.0)
    clock.call("train_end")

    assert not any((tmp_path / name).exists() for name in ("elsewhere/history.jsonl",))
    assert not (tmp_path / "precious").exists() or (tmp_path / "precious").read_text() == "precious"


def test_every_trainer_keeps_one_history(program: Any) -> None:
    trainer = SimpleNamespace(DEFAULT_CALLBACKS=[int])

    program.keep_history(trainer)
    program.keep_history(trainer)

    assert vars(trainer) == {"DEFAULT_CALLBACKS": [int, program.History]}
