"""What a training of the Trainer logs, keeps and leaves behind: callbacks of ours in a real Trainer of one process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import transformers
from torch import nn
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from multinode_image.hooks.step.gradients import SEEN
from multinode_image.hooks.trainer import best_model, history, last_checkpoint, speed
from multinode_image.report.trainings import SPEED, WAITING, read_training

ROW = {"x": torch.ones(2), "labels": torch.tensor(1.0)}


class Model(nn.Module):
    """A model of three weights."""

    def __init__(self) -> None:
        """Make them."""
        super().__init__()
        self.line = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the loss."""
        return {"loss": (self.line(x)[:, 0] - labels).square().mean()}


class At(TrainerCallback):
    """Do something before a step."""

    def __init__(self, step: int, act: Callable[[], object]) -> None:
        """Keep what."""
        self.step, self.act, self.evaluated = step, act, list[int]()

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Do it."""
        if state.global_step == self.step:
            self.act()

    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Keep when the Trainer evaluated."""
        self.evaluated.append(state.global_step)


@pytest.fixture(autouse=True)
def ends_by_default(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(SEEN, "waited", None)
    yield
    signal.signal(signal.SIGTERM, before)


def give(place: Path, **more: Any) -> TrainingArguments:
    usual: dict[str, Any] = {
        "use_cpu": True, "report_to": "none", "max_steps": 4, "per_device_train_batch_size": 3, "logging_steps": 1,
        "gradient_accumulation_steps": 2, "save_strategy": "no", "disable_tqdm": True,
    }  # fmt: skip
    return TrainingArguments(str(place), **{**usual, **more})


def train(place: Path, *callbacks: Any, **more: Any) -> Trainer:
    trainer = Trainer(
        Model(), give(place, **more), train_dataset=[ROW] * 30, eval_dataset=[ROW], callbacks=[*callbacks]
    )
    trainer.train()
    return trainer


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arguments be those of two ranks."""
    monkeypatch.setattr(TrainingArguments, "world_size", 2)


def test_a_step_after_sigterm_saves_and_the_trainer_ends_with_its_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def tell() -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    told = At(2, tell)
    with pytest.raises(SystemExit) as ended:
        train(
            tmp_path, told, last_checkpoint.LastCheckpoint(), save_strategy="steps", eval_strategy="steps",
            eval_steps=1, save_steps=100,
        )  # fmt: skip

    assert ended.value.code == 143
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-3"]
    assert told.evaluated == [1, 2]
    said = capfd.readouterr().err
    assert said.count("told to end") == 1 and "saved at step 3;" in said


@pytest.mark.parametrize("more", [{"save_strategy": "no"}, {"save_strategy": "steps", "enable_jit_checkpoint": True}])
def test_who_saves_nothing_or_sees_to_it_itself_is_left_alone(more: dict[str, Any], tmp_path: Path) -> None:
    if not set(more) <= set(TrainingArguments.__dataclass_fields__):
        pytest.skip("this release has no enable_jit_checkpoint")
    callback, handlers = last_checkpoint.LastCheckpoint(), list[Any]()

    train(tmp_path, callback, At(2, lambda: handlers.append(signal.getsignal(signal.SIGTERM))), **more)

    assert not callback.saves and not callback.ends
    assert handlers[0] != callback.tell


def test_a_handler_of_the_script_s_own_stays(tmp_path: Path) -> None:
    told = mock.Mock()
    signal.signal(signal.SIGTERM, told)

    train(tmp_path, last_checkpoint.LastCheckpoint(), save_strategy="epoch")

    assert signal.getsignal(signal.SIGTERM) == told


def test_after_the_training_sigterm_ends_the_script_again(tmp_path: Path) -> None:
    callback, handlers = last_checkpoint.LastCheckpoint(), list[Any]()

    train(tmp_path, callback, At(2, lambda: handlers.append(signal.getsignal(signal.SIGTERM))), save_strategy="epoch")

    assert handlers == [callback.tell]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


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
    logs: dict[str, float], waited: float | None, added: dict[str, float], tmp_path: Path, of_two: None
) -> None:
    """Ten steps of twelve examples in 5 s, also after a checkpoint; the row that was kept has it, too."""
    state, clock, args = TrainerState(global_step=100), mock.Mock(return_value=50.0), give(tmp_path)
    with mock.patch("time.monotonic", clock):
        callback = speed.Speed()
        callback.on_train_begin(args, state, None)
        clock.return_value, state.global_step, SEEN.waited = 55.0, 110, waited
        given = dict(logs)
        state.log_history.append({**logs, "step": 110})
        callback.on_log(args, state, None, logs=given)
    assert given == {**logs, **added} and state.log_history == [{**logs, "step": 110, **added}]


def test_two_rows_of_one_step_are_no_speed(tmp_path: Path) -> None:
    state, callback = TrainerState(), speed.Speed()
    callback.on_train_begin(give(tmp_path), state, None)
    callback.on_log(give(tmp_path), state, None, logs=(given := {"loss": 1.0}))
    assert given == {"loss": 1.0}


def test_all_that_a_trainer_has_by_default_works_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is registered once, the speed before all others: what is logged by them has it."""
    monkeypatch.setattr(transformers.trainer, "DEFAULT_CALLBACKS", [*transformers.trainer.DEFAULT_CALLBACKS])
    for _ in range(2):
        history.keep_history(transformers.trainer)
    speed.watch_speed(transformers.trainer)
    last_checkpoint.watch_end(transformers.trainer)
    best_model.watch_best(transformers.trainer)
    ours = (history.History, speed.Speed, last_checkpoint.LastCheckpoint, best_model.BestModel)
    assert [transformers.trainer.DEFAULT_CALLBACKS.count(kind) for kind in ours] == [1] * 4

    trainer = train(tmp_path)

    rows = [row for row in trainer.state.log_history if "loss" in row]
    assert len(rows) == 4 and all(row["samples_per_second"] > 0 for row in rows)
    kept = [row["logged"] for row in read_rows(tmp_path) if "loss" in row.get("logged", {})]
    assert [row["samples_per_second"] for row in kept] == [row["samples_per_second"] for row in rows]


class Clock:
    """A training of so many seconds a step on two ranks, with its callback."""

    def __init__(self, place: Path, step: int = 0, *, is_zero: bool = True) -> None:
        """Begin."""
        self.now, self.args = 1000.0, give(place, bf16=True, per_device_train_batch_size=4)
        self.state = TrainerState(global_step=step, is_world_process_zero=is_zero, max_steps=100)
        self.callback, self.model = history.History(), Model()
        SEEN.waited = 0.0
        self.tell("train_begin", model=self.model)

    def tell(self, event: str, **more: object) -> None:
        """Call the callback at the time of the clock."""
        with (
            mock.patch("time.monotonic", lambda: self.now), mock.patch("time.time", lambda: 1.79e9 + self.now),
            mock.patch.object(history, "uses_float32", lambda: False),
        ):  # fmt: skip
            getattr(self.callback, f"on_{event}")(self.args, self.state, None, **more)

    def train(self, steps: int, seconds: float = 1.0) -> None:
        """Go on."""
        for _ in range(steps):
            self.now += seconds
            SEEN.waited = (SEEN.waited or 0) + seconds / 4
            self.state.global_step += 1
            self.tell("step_end")


def read_rows(place: Path) -> list[dict[str, Any]]:
    file = place / "_multinode/history.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines() if line] if file.exists() else []


def test_a_report_tells_what_a_training_kept(tmp_path: Path, of_two: None) -> None:
    clock = Clock(tmp_path)
    clock.train(10)
    clock.tell("log", logs={"loss": torch.tensor(1.5), "learning_rate": 2e-4, "name": "x"})
    clock.tell("train_end")
    clock.tell("log", logs={"eval_accuracy": 0.6})

    kept = read_training(str(tmp_path))

    assert kept.curves["loss"] == [(10, 1.5)] and kept.curves["eval_accuracy"] == [(10, 0.6)]
    assert {value for _, value in kept.curves[SPEED]} == {16.0}
    assert {value for _, value in kept.curves[WAITING]} == {25.0}
    assert kept.facts["model"] == "Model" and kept.facts["ranks"] == 2
    assert kept.facts["transformers"] == transformers.__version__ and kept.facts["weights"] == 3
    assert kept.peak and kept.total == 100


def test_before_a_checkpoint_nothing_is_written_where_nothing_is(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    clock.train(20)
    assert [*tmp_path.iterdir()] == []
    clock.tell("save")
    assert len(read_rows(tmp_path)) == 21
    clock.train(1)
    assert len(read_rows(tmp_path)) == 22


def test_a_training_that_goes_on_adds_to_its_history(tmp_path: Path) -> None:
    for step in (0, 5):
        clock = Clock(tmp_path, step)
        clock.train(7)
        clock.tell("log", logs={"loss": 1.0})
        clock.tell("train_end")
    with (tmp_path / "_multinode/history.jsonl").open("a") as cut:
        cut.write('{"step"')
    assert [step for step, _ in read_training(str(tmp_path)).curves["loss"]] == [12]
    assert [start.step for start in read_training(str(tmp_path)).starts] == [0, 5]

    Clock(tmp_path, 0).tell("train_end")

    assert [start.step for start in read_training(str(tmp_path)).starts] == [0]


def test_a_day_has_few_rows(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    clock.train(8_640, 10.0)
    clock.tell("train_end")

    assert 500 < len(read_rows(tmp_path)) < 2000


def test_other_ranks_write_nothing(tmp_path: Path) -> None:
    clock = Clock(tmp_path, is_zero=False)
    clock.train(3)
    clock.tell("save")
    clock.tell("train_end")

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
def test_no_link_is_followed_and_no_training_ends_for_it(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    clock = Clock(tmp_path)
    clock.train(3)
    clock.tell("log", logs={"loss": 1.0})
    clock.tell("train_end")

    assert not (tmp_path / "elsewhere/history.jsonl").exists()
    assert not (tmp_path / "precious").exists() or (tmp_path / "precious").read_text() == "precious"


BEST: dict[str, Any] = {
    "load_best_model_at_end": True, "save_strategy": "steps", "eval_strategy": "steps", "save_steps": 1,
    "eval_steps": 1,
}  # fmt: skip


def join(monkeypatch: pytest.MonkeyPatch, theirs: int | None) -> list[torch.Tensor]:
    """Let there be other ranks, whose digest is this if it is another one; return what rank 0 sends: zeros."""
    sent: list[torch.Tensor] = []

    def reduce(pair: torch.Tensor, _: object) -> None:
        if theirs is not None:
            pair.copy_(torch.maximum(pair, torch.tensor([theirs, -theirs])))

    def send(tensor: torch.Tensor, rank: int) -> None:
        sent.append(tensor.zero_())

    monkeypatch.setattr(torch.distributed, "all_reduce", reduce)
    monkeypatch.setattr(torch.distributed, "broadcast", send)
    return sent


@pytest.mark.parametrize(("dtype", "rank"), [(torch.float32, 0), (torch.bfloat16, 1)])
def test_ranks_without_the_best_model_get_it_from_rank_0(
    dtype: torch.dtype, rank: int, tmp_path: Path, of_two: None, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    model = Model().to(dtype)
    model.register_buffer("mean", torch.ones(3, 2).t())  # in no one piece
    sent = join(monkeypatch, theirs=7)
    monkeypatch.setattr(TrainingArguments, "process_index", rank)

    best_model.BestModel().on_train_end(give(tmp_path, **BEST), TrainerState(), TrainerControl(), model=model)

    assert len(sent) == 3 and all(not tensor.any() for tensor in (*model.parameters(), *model.buffers()))
    assert ("not all ranks found the best model" in capsys.readouterr().err) is (rank == 0)


@pytest.mark.parametrize(
    ("more", "world", "theirs"),
    [
        pytest.param(BEST, 2, None, id="all have it"),
        pytest.param({}, 2, 7, id="nobody wants it"),
        pytest.param(BEST, 1, 7, id="one rank"),
        pytest.param({**BEST, "fsdp": ["full_shard"]}, 2, 7, id="parts of a model"),
        pytest.param({**BEST, "deepspeed": "zero.json"}, 2, 7, id="parts of a model by DeepSpeed"),
    ],
)
def test_else_no_best_model_is_sent(
    more: dict[str, Any], world: int, theirs: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = join(monkeypatch, theirs)
    monkeypatch.setattr(TrainingArguments, "world_size", world)

    args = give(tmp_path, **{name: value for name, value in more.items() if name in BEST})
    for name in more.keys() - BEST.keys():
        vars(args)[name] = more[name]

    best_model.BestModel().on_train_end(args, TrainerState(), TrainerControl(), model=Model())

    assert sent == []
