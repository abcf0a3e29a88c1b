"""What a line of progress says, and where it is shown: by the Trainer's own callback and its bar."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import transformers
from transformers import TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

from multinode_image.hooks.step.gradients import SEEN
from multinode_image.hooks.trainer import progress


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SEEN, "waited", None)
    monkeypatch.setattr(SEEN, "sent", "")


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arguments be those of two ranks."""
    monkeypatch.setattr(TrainingArguments, "world_size", 2)


def show(place: Path, steps: int, *, waits: float | None, interval: float = 0, **more: Any) -> None:
    """Train for steps of 10 s after a checkpoint; waits: seconds of each in which others are waited for."""
    clock = mock.Mock(return_value=1000.0)
    state = TrainerState(global_step=100, max_steps=1000, log_history=[{"loss": 2.0}], **more)
    args = TrainingArguments(str(place), use_cpu=True, per_device_train_batch_size=3, gradient_accumulation_steps=2)
    with mock.patch("time.monotonic", clock), mock.patch("time.time", lambda: 4e9 + clock.return_value):
        callback = progress.Progress()
        callback.on_train_begin(args, state, None)
        if callback.training_bar is not None:
            callback.training_bar.mininterval = interval
        for _ in range(steps):
            clock.return_value += 10
            state.global_step += 1
            if waits is not None:
                SEEN.waited = (SEEN.waited or 0) + waits
            callback.on_step_end(args, state, None)
        callback.on_train_end(args, state, None)


def read_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.replace("\r", "\n").splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("since", "now", "rows", "said"),
    [
        ((0, 0.0, None), (5, 10.0, None), [], "12.0 samples/s"),
        ((0, 0.0, None), (1, 48.0, 0.0), [{"eval_loss": 9.0}], "0.5 samples/s, waiting 0%"),
        ((0, 0.0, None), (5, 10.0, 1.0), [{"loss": 3.0}, {"loss": 1.23456}, {"eval_loss": 9.0}],
         "loss 1.235, 12.0 samples/s, waiting 10%"),
        ((95, 90.0, 10.0), (100, 100.0, 15.0), [{"loss": 12345.6}], "loss 1.235e+04, 12.0 samples/s, waiting 50%"),
    ],
)  # fmt: skip
def test_a_line_tells_of_the_time_since_another(
    since: tuple[Any, ...], now: tuple[Any, ...], rows: list[dict[str, float]], said: str
) -> None:
    assert progress.describe(progress.Point(*since), progress.Point(*now), 24, rows) == said


def test_each_line_of_a_training_has_what_is_new(
    tmp_path: Path, of_two: None, capsys: pytest.CaptureFixture[str]
) -> None:
    show(tmp_path, 2, waits=1.0)

    lines = [line for line in read_lines(capsys) if "loss" in line]
    assert len(lines) >= 2 and all("loss 2, 1.2 samples/s, waiting 10%" in line for line in lines)
    assert "101/1000" in lines[0] and "102/1000" in lines[-1]


def test_who_counts_no_waiting_is_told_of_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(tmp_path, 2, waits=None)

    lines = [line for line in read_lines(capsys) if "loss" in line]
    assert lines and all(line.strip().endswith("loss 2, 0.6 samples/s]") for line in lines)


@pytest.mark.parametrize(
    ("waited", "sent", "helps"),
    [
        (20.0, "float32", None), (None, "", None),
        (21.0, "float32", "MULTINODE_GRADIENTS=bf16"), (70.0, "off", "MULTINODE_GRADIENTS=bf16"),
        (21.0, "bf16", "waiting by a larger batch"), (70.0, "int8", "waiting by a larger batch"),
        (70.0, "script", "waiting by a larger batch"),
    ],
)  # fmt: skip
def test_much_waiting_is_told_with_what_helps(waited: float | None, sent: str, helps: str | None) -> None:
    first, now = progress.Point(0, 1000.0, None), progress.Point(50, 1100.0, waited)

    said = progress.advise(first, now, sent)

    assert [helps in line and "measured" in line for line in said if helps] == ([True] if helps else [])
    assert bool(said) == bool(helps)


def test_advice_is_given_once_and_not_of_the_first_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SEEN.sent, SEEN.waited = "float32", 0.0
    show(tmp_path, 2 * progress.KNOWN, waits=5.0)
    advice = [line for line in read_lines(capsys) if "less waiting" in line]
    assert advice and all(f"{100 + progress.KNOWN}/1000" in line for line in advice)

    show(tmp_path, 2, waits=5.0)
    assert not any("less waiting" in line for line in read_lines(capsys)[:-2])


def test_nothing_is_measured_that_nobody_sees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(tmp_path, 2, waits=1.0, is_world_process_zero=False)

    assert read_lines(capsys) == []


def test_a_bar_that_is_turned_off_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = transformers.trainer_callback
    monkeypatch.setattr(module, "tqdm", functools.partial(module.tqdm, disable=True))  # as TQDM_DISABLE=1 does

    show(tmp_path, 2, waits=1.0)

    assert read_lines(capsys) == []


def test_a_line_that_is_not_due_is_not_worked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out = mock.Mock(wraps=progress.describe)
    monkeypatch.setattr(progress, "describe", worked_out)

    show(tmp_path, 2, waits=None, interval=1e10)

    assert worked_out.call_count == 1, "that of the end"


class InNotebook(ProgressCallback):
    """The callback of the Trainer in a notebook."""


@pytest.mark.parametrize(
    ("usual", "terminal", "ours"),
    [(ProgressCallback, False, True), (ProgressCallback, True, False), (InNotebook, False, False)],
)
def test_progress_is_shown_in_a_log(usual: type, terminal: bool, ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers.trainer, "DEFAULT_PROGRESS_CALLBACK", usual)
    monkeypatch.setattr("os.isatty", lambda _: terminal)

    progress.show_progress(transformers.trainer)

    assert transformers.trainer.DEFAULT_PROGRESS_CALLBACK is (progress.Progress if ours else usual)
