"""What a line of progress says, and where it is shown; with stand-ins for torch and the Trainer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

NAME = "multinode_image.hooks.trainer.progress"
BATCH = SimpleNamespace(train_batch_size=3, gradient_accumulation_steps=2, world_size=2)
ALONE = SimpleNamespace(train_batch_size=3, gradient_accumulation_steps=2, world_size=1)


@dataclass
class Bar:
    """A bar of tqdm, which prints at each step."""

    disable: bool = False
    mininterval: float = 0
    n: int = 0
    last_print_n: int = 0
    last_print_t: float = 0
    postfix: str = ""
    lines: list[tuple[int, str]] = field(default_factory=list)

    def set_postfix_str(self, text: str, *, refresh: bool) -> None:
        assert not refresh
        self.postfix = text

    def print(self) -> None:
        self.lines.append((self.n, self.postfix))


class Shown:
    """The Trainer's own callback, whose bar is known to rank 0 alone."""

    bar: Bar | None = Bar()

    def on_train_begin(self, *_: object) -> None:
        self.training_bar, self.current_step = self.bar, 0

    def on_step_begin(self, *_: object) -> None:
        pass

    def on_step_end(self, args: Any, state: Any, _: object) -> None:
        if self.training_bar is not None:
            self.training_bar.n += state.global_step - self.current_step
            self.current_step = state.global_step
            self.training_bar.print()

    def on_train_end(self, *_: object) -> None:
        if self.training_bar is not None:
            self.training_bar.print()


@pytest.fixture
def progress() -> Iterator[Any]:
    """Import the program beside stand-ins of what it imports."""
    modules = {name: ModuleType(name) for name in ("transformers", "transformers.trainer_callback")}
    vars(modules["transformers.trainer_callback"])["ProgressCallback"] = Shown
    with mock.patch.dict(sys.modules, modules):
        sys.modules.pop(NAME, None)
        yield importlib.import_module(NAME)


@pytest.mark.parametrize(
    ("since", "now", "history", "said"),
    [
        ((0, 0.0, None), (5, 10.0, None), [], "12.0 samples/s"),
        ((0, 0.0, None), (1, 48.0, 0.0), [{"eval_loss": 9.0}], "0.5 samples/s, waiting 0%"),
        ((0, 0.0, None), (5, 10.0, 1.0), [{"loss": 3.0}, {"loss": 1.23456}, {"eval_loss": 9.0}],
         "loss 1.235, 12.0 samples/s, waiting 10%"),
        ((95, 90.0, 10.0), (100, 100.0, 15.0), [{"loss": 12345.6}], "loss 1.235e+04, 12.0 samples/s, waiting 50%"),
    ],
)  # fmt: skip
def test_a_line_tells_of_the_time_since_another(
    progress: Any, since: tuple[Any, ...], now: tuple[Any, ...], history: list[dict[str, float]], said: str
) -> None:
    assert progress.describe(progress.Point(*since), progress.Point(*now), 24, history) == said


def train(progress: Any, args: Any, seen: Any, bar: Bar | None) -> list[tuple[int, str]]:
    """Train for two steps of 10 s after a checkpoint, with what counts the waiting; return the lines."""
    seen = seen or SimpleNamespace(waited=None, sent="")
    state, clock = SimpleNamespace(global_step=100, log_history=[{"loss": 2.0}]), mock.Mock(return_value=1000.0)
    with (
        mock.patch.object(Shown, "bar", bar), mock.patch("time.monotonic", clock), mock.patch("time.time", clock),
        mock.patch.object(progress, "SEEN", seen),
    ):  # fmt: skip
        callback = progress.Progress()
        callback.on_train_begin(args, state, None)
        for _ in range(2):
            clock.return_value += 10
            state.global_step += 1
            if args is BATCH:
                seen.waited = (seen.waited or 0) + 1
            callback.on_step_end(args, state, None)
        callback.on_train_end(args, state, None)
    return bar.lines if bar else []


def test_who_counts_no_waiting_is_told_of_none(progress: Any) -> None:
    alone = "loss 2, 0.6 samples/s"

    assert train(progress, ALONE, None, Bar()) == [
        (101, alone),
        (102, alone),
        (102, alone),
    ]


def test_each_line_of_a_training_has_what_is_new(progress: Any) -> None:
    said = "loss 2, 1.2 samples/s, waiting 10%"

    lines = train(progress, BATCH, None, Bar())

    assert lines == [(101, said), (102, said), (102, said)]


@pytest.mark.parametrize(
    ("waited", "sent", "helps"),
    [
        (20.0, "float32", None), (None, "", None),
        (21.0, "float32", "MULTINODE_GRADIENTS=bf16"), (70.0, "off", "MULTINODE_GRADIENTS=bf16"),
        (21.0, "bf16", "waiting by a larger batch"), (70.0, "int8", "waiting by a larger batch"),
        (70.0, "own", "waiting by a larger batch"),
    ],
)  # fmt: skip
def test_much_waiting_is_told_with_what_helps(
    progress: Any, waited: float | None, sent: str, helps: str | None
) -> None:
    first, now = progress.Point(0, 1000.0, None), progress.Point(50, 1100.0, waited)

    said = progress.advise(first, now, sent)

    assert [helps in each and "measured" in each for each in said] == ([] if helps is None else [True])


def test_advice_is_given_once_and_not_of_the_first_steps(progress: Any) -> None:
    state, clock = SimpleNamespace(global_step=0, log_history=[]), mock.Mock(return_value=1000.0)
    seen, bar = SimpleNamespace(waited=0.0, sent="float32"), Bar()
    with (
        mock.patch.object(Shown, "bar", bar), mock.patch("time.monotonic", clock), mock.patch("time.time", clock),
        mock.patch.object(progress, "SEEN", seen),
    ):  # fmt: skip
        callback = progress.Progress()
        callback.on_train_begin(BATCH, state, None)
        for _ in range(2 * progress.KNOWN):
            clock.return_value += 10
            state.global_step += 1
            seen.waited += 5
            callback.on_step_end(BATCH, state, None)
        callback.on_train_end(BATCH, state, None)

    assert [step for step, text in bar.lines if "less waiting" in text] == [progress.KNOWN]
    short = train(progress, BATCH, SimpleNamespace(waited=5.0, sent="float32"), Bar())
    assert ["less waiting" in text for _, text in short] == [False, False, False]


@pytest.mark.parametrize("bar", [None, Bar(disable=True)])
def test_nothing_is_measured_that_nobody_sees(progress: Any, bar: Bar | None) -> None:
    assert not any(text for _, text in train(progress, BATCH, None, bar))


def test_a_line_that_is_not_due_is_not_worked_out(progress: Any) -> None:
    lines = train(progress, ALONE, None, Bar(mininterval=15, last_print_t=1000))

    assert [bool(text) for _, text in lines] == [False, True, True]


class InNotebook(Shown):
    """The callback of the Trainer in a notebook."""


@pytest.mark.parametrize(
    ("usual", "terminal", "ours"), [(Shown, False, True), (Shown, True, False), (InNotebook, False, False)]
)
def test_progress_is_shown_in_a_log(progress: Any, usual: type, terminal: bool, ours: bool) -> None:
    trainer = SimpleNamespace(DEFAULT_PROGRESS_CALLBACK=usual)

    with mock.patch("os.isatty", lambda _: terminal):
        progress.show_progress(trainer)

    assert trainer.DEFAULT_PROGRESS_CALLBACK is (progress.Progress if ours else usual)
