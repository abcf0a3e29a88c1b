"""What a training of the Trainer logs, keeps and leaves behind: callbacks of ours in a real Trainer of one process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from unittest import mock

import pytest
import torch
import transformers
from torch import nn
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments

from multinode_image.hooks.step.gradients import SEEN
from multinode_image.hooks.trainer import best_model, kept_state, last_checkpoint, speed
from multinode_image.report.trainings import measure, read_training
from multinode_image.results.states import SPEED, WAITING

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


def test_a_trainer_in_another_thread_leaves_signals_alone(tmp_path: Path) -> None:
    callback = last_checkpoint.LastCheckpoint()
    thread = Thread(target=train, args=(tmp_path, callback), kwargs={"save_strategy": "epoch"})
    thread.start()
    thread.join()

    assert callback.saves and not callback.listens and [*tmp_path.glob("checkpoint-*")]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_after_the_training_sigterm_ends_the_script_again(tmp_path: Path) -> None:
    callback, handlers = last_checkpoint.LastCheckpoint(), list[Any]()

    train(tmp_path, callback, At(2, lambda: handlers.append(signal.getsignal(signal.SIGTERM))), save_strategy="epoch")

    assert handlers == [callback.tell]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize(
    ("before", "logs", "steps", "seconds", "waited", "added"),
    [
        (False, {"loss": 2.0}, 10, 5.0, None, {"samples_per_second": 24.0}),
        (False, {"loss": 2.0}, 10, 5.0, 1.0, {"samples_per_second": 24.0, "waiting": 20.0}),
        (False, {"eval_loss": 2.0}, 10, 5.0, 1.0, {}),
        (False, {"train_loss": 2.0}, 10, 5.0, 1.0, {}),
        (True, {"loss": 2.0}, 10, 5.0, 0.5, {"samples_per_second": 24.0, "waiting": 10.0}),
        (True, {"loss": 2.0}, 0, 5.0, 0.5, {}),  # two rows of one step are no speed
        (True, {"loss": 2.0}, 10, 0.0, 0.5, {}),
        (True, None, 10, 5.0, 0.5, {}),
    ],
)
def test_a_row_with_a_loss_has_the_speed_since_the_one_before(
    before: bool, logs: Any, steps: int, seconds: float, waited: float | None, added: dict[str, float],
    tmp_path: Path, of_two: None,
) -> None:  # fmt: skip
    """Of twelve examples a step, after a checkpoint or another row; a row of this step that was kept has it, too."""
    state, clock, args = TrainerState(global_step=100), mock.Mock(return_value=50.0), give(tmp_path)
    with mock.patch("time.monotonic", clock):
        callback = speed.Speed()
        callback.on_train_begin(args, state, None)
        if before:
            clock.return_value, state.global_step, SEEN.waited = 60.0, 102, 9.0
            callback.on_log(args, state, None, logs={"loss": 1.0})
        clock.return_value += seconds
        state.global_step += steps
        SEEN.waited = None if waited is None else (SEEN.waited or 0) + waited
        kept = [{"step": 100}, *([] if before else [{**logs, "step": state.global_step}])]  # of another step, and of it
        state.log_history, given = [dict(row) for row in kept], logs and dict(logs)
        callback.on_log(args, state, None, logs=given)
    assert given == (logs and {**logs, **added})
    assert state.log_history == [*kept[:1], *({**row, **added} for row in kept[1:])]


def test_all_that_a_trainer_has_by_default_works_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is registered once, the speed before all others: what is logged by them has it."""
    monkeypatch.setattr(transformers.trainer, "DEFAULT_CALLBACKS", [*transformers.trainer.DEFAULT_CALLBACKS])
    for _ in range(2):
        kept_state.keep_state(transformers.trainer)
    speed.watch_speed(transformers.trainer)
    last_checkpoint.watch_end(transformers.trainer)
    best_model.watch_best(transformers.trainer)
    ours = (kept_state.KeptState, speed.Speed, last_checkpoint.LastCheckpoint, best_model.BestModel)
    assert [transformers.trainer.DEFAULT_CALLBACKS.count(kind) for kind in ours] == [1] * 4

    trainer = train(tmp_path)

    rows = [row for row in trainer.state.log_history if "loss" in row]
    assert len(rows) == 4 and all(row["samples_per_second"] > 0 for row in rows)
    assert read_kept(tmp_path)["log_history"] == trainer.state.log_history
    assert read_training(str(tmp_path)).curves[SPEED] == [(row["step"], row[SPEED]) for row in rows]


class Clock:
    """A training of so many seconds a step on two ranks, with its callback."""

    def __init__(self, place: Path, step: int = 0, *, is_zero: bool = True) -> None:
        """Begin."""
        self.now, self.args = 1000.0, give(place, bf16=True, per_device_train_batch_size=4)
        self.state = TrainerState(global_step=step, is_world_process_zero=is_zero, max_steps=100)
        self.callback, self.model = kept_state.KeptState(), Model()
        SEEN.waited = 0.0
        self.tell("train_begin", model=self.model)

    def tell(self, event: str, **more: object) -> None:
        """Call the callback at the time of the clock."""
        with (
            mock.patch("time.monotonic", lambda: self.now), mock.patch("time.time", lambda: 1.79e9 + self.now),
            mock.patch.object(kept_state, "must_use_float32", lambda: False),
        ):  # fmt: skip
            getattr(self.callback, f"on_{event}")(self.args, self.state, None, **more)

    def train(self, steps: int, seconds: float = 1.0) -> None:
        """Go on."""
        for _ in range(steps):
            self.tell("step_begin")
            self.now += seconds
            SEEN.waited = (SEEN.waited or 0) + seconds / 4
            self.state.global_step += 1
            self.tell("step_end")

    def log(self, **row: object) -> None:
        """Log a row, as the Trainer does."""
        self.state.log_history.append({**row, "step": self.state.global_step})
        self.tell("log", logs=row)


def read_kept(place: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((place / "_multinode/trainer_state.json").read_text())
    return state


def test_a_report_tells_what_a_training_kept(tmp_path: Path, of_two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "--bf16"])
    monkeypatch.setenv("MULTINODE_GRADIENTS", "int8")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    clock = Clock(tmp_path)
    clock.train(10)
    clock.state.log_history.append({("no", "name"): 1.0, "step": 1})
    clock.log(loss=torch.tensor(1.5), learning_rate=2e-4, name="x", strange=object())
    clock.tell("train_end")
    for number in range(2):
        clock.log(**{f"eval_accuracy_{number}": 0.6})

    kept = read_training(str(tmp_path))

    assert kept.curves["loss"] == [(10, 1.5)] and kept.curves["eval_accuracy_1"] == [(10, 0.6)]
    assert measure(kept.starts) == {SPEED: 16.0, WAITING: 25.0}
    assert (kept.step, kept.total) == (10, 100)
    assert kept.facts == {
        "began": 1.79e9 + 1000, "step": 0, "script": "train.py", "model": "Model", "weights": 3, "ranks": 2,
        "batch": 16, "bf16": True, "gradients": "int8", "threads": "7", "torch": torch.__version__,
        "transformers": transformers.__version__, "time": 1.79e9 + 1010, "seconds": 9.0, "steps": 9, "waited": 2.25,
        "peak": mock.ANY,
    }  # fmt: skip
    assert 1 << 26 < int(str(kept.facts["peak"])) < 1 << 40  # bytes


def test_it_is_what_the_trainer_writes_into_its_checkpoints(tmp_path: Path) -> None:
    trainer = train(tmp_path, kept_state.KeptState(), save_strategy="steps", save_steps=4)

    kept = read_kept(tmp_path)
    starts = kept.pop("multinode_starts")
    trainer.save_state()
    assert json.loads((tmp_path / "trainer_state.json").read_text()) == kept
    assert len(starts) == 1 and starts[0]["steps"] == 3 and starts[0]["waited"] is None


def test_before_a_checkpoint_nothing_is_written_where_nothing_is(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    clock.train(20)
    assert [*tmp_path.iterdir()] == []
    clock.tell("save")
    assert read_kept(tmp_path)["global_step"] == 20
    clock.train(5)
    assert read_kept(tmp_path)["global_step"] > 20


def test_who_asks_for_metrics_has_them_before_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTINODE_METRICS", "9400")
    Clock(tmp_path).train(5)
    Clock(tmp_path / "other", is_zero=False).train(5)

    assert read_kept(tmp_path)["global_step"] > 0 and not (tmp_path / "other").exists()


def test_a_training_that_goes_on_keeps_its_starts(tmp_path: Path) -> None:
    for step in (0, 5):
        clock = Clock(tmp_path, step)
        clock.train(7)
        clock.tell("train_end")
    training = read_training(str(tmp_path))
    assert (training.step, [start["step"] for start in training.starts]) == (12, [0, 5])
    assert [start["steps"] for start in training.starts] == [6, 6]

    Clock(tmp_path, 0).tell("train_end")

    assert [start["step"] for start in read_training(str(tmp_path)).starts] == [0]


@pytest.mark.parametrize(
    ("seconds", "writing", "writes"),
    [
        pytest.param(0.5, 0.0, 25, id="every two seconds"),
        pytest.param(10.0, 0.0, 100, id="at each step"),
        pytest.param(0.5, 0.05, 5, id="a write takes a 200th of the time"),
    ],
)
def test_writing_takes_little_of_the_time(
    seconds: float, writing: float, writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, written = Clock(tmp_path), list[int]()
    (tmp_path / "_multinode").mkdir()

    def write(self: Any, *_: object) -> None:
        written.append(clock.state.global_step)
        clock.now += writing

    monkeypatch.setattr("multinode_image.results.shared.Shared.write", write)
    clock.train(100, seconds)

    assert len(written) == writes


def test_a_write_that_fails_is_not_tried_at_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, tried = Clock(tmp_path), mock.Mock(side_effect=OSError)
    (tmp_path / "_multinode").mkdir()
    monkeypatch.setattr("multinode_image.results.shared.Shared.write", tried)

    clock.train(100, 0.1)

    assert tried.call_count == 5


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
    os.mkfifo(place / "_multinode/trainer_state.json")


def make_file(place: Path) -> None:
    (place / "_multinode").write_text("")


def make_directory(place: Path) -> None:
    (place / "_multinode/trainer_state.json").mkdir(parents=True)


def make_other(place: Path) -> None:
    (place / "_multinode").mkdir()
    (place / "precious").write_text("precious")
    (place / "_multinode/trainer_state.json").symlink_to(place / "precious")


def make_wrong(place: Path) -> None:
    (place / "_multinode").mkdir()
    (place / "_multinode/trainer_state.json").write_text('{"multinode_starts": {"a": ' + "[" * 200)


@pytest.mark.parametrize("step", [0, 5])
@pytest.mark.parametrize("make", [make_link, make_pipe, make_file, make_directory, make_other, make_wrong])
def test_no_link_is_followed_and_no_training_ends_for_it(
    tmp_path: Path, make: Callable[[Path], None], step: int
) -> None:
    make(tmp_path)
    clock = Clock(tmp_path, step)
    clock.train(3)
    clock.log(loss=1.0)
    clock.tell("train_end")

    assert not (tmp_path / "elsewhere/trainer_state.json").exists()
    assert not (tmp_path / "precious").exists() or (tmp_path / "precious").read_text() == "precious"
    if make in (make_pipe, make_other, make_wrong):  # its name is all that is taken
        assert len(read_kept(tmp_path)["multinode_starts"]) == 1


def test_a_group_can_go_on_with_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    Clock(tmp_path).tell("train_end")
    os.umask(before)

    assert [
        path.stat().st_mode & 0o777 for path in (tmp_path / "_multinode", *(tmp_path / "_multinode").iterdir())
    ] == [
        0o775,
        0o664,
    ]
