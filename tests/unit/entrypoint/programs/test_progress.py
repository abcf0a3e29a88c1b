"""What a line of progress says, and where it is shown; with stand-ins for torch and the Trainer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

NAME = "entrypoint.programs.progress"
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


@dataclass
class Parallel:
    """DDP, which counts nanoseconds; a step exchanges for 6 s, of which it computes for 5 s."""

    rate: int = 100
    steps: int = 0

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        self.rate = rate

    def _get_ddp_logging_data(self) -> dict[str, object]:
        averages = {"avg_backward_comm_time": 6 * 10**9, "avg_backward_compute_comm_overlap_time": 5 * 10**9}
        return {"iteration": self.steps, **(averages if self.steps else {})}


@dataclass
class Hooks:
    """What torch calls before each module, and how often that was removed."""

    hook: Callable[[Any, Any], None] | None = None
    removed: int = 0

    def register(self, hook: Callable[[Any, Any], None]) -> Hooks:
        assert self.hook is None
        self.hook = hook
        return self

    def remove(self) -> None:
        self.removed += 1


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def progress(hooks: Hooks) -> Iterator[Any]:
    """Import the program beside stand-ins of what it imports."""
    contents: dict[str, dict[str, object]] = {
        "torch": {}, "torch.nn": {}, "torch.nn.modules": {},
        "torch.nn.modules.module": {"register_module_forward_pre_hook": hooks.register},
        "transformers": {},
        "transformers.trainer_callback": {"ProgressCallback": Shown},
    }  # fmt: skip
    modules = {name: ModuleType(name) for name in contents}
    for name, module in modules.items():
        vars(module).update(contents[name])
        above, _, last = name.rpartition(".")
        if above:
            setattr(modules[above], last, module)
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


def train(progress: Any, hooks: Hooks, args: Any, module: Any, bar: Bar | None) -> list[tuple[int, str]]:
    """Train for two steps of 10 s after a checkpoint, with the module that a step calls first; return the lines."""
    state, clock = SimpleNamespace(global_step=100, log_history=[{"loss": 2.0}]), mock.Mock(return_value=1000.0)
    with mock.patch.object(Shown, "bar", bar), mock.patch("time.monotonic", clock), mock.patch("time.time", clock):
        callback = progress.Progress()
        callback.on_train_begin(args, state, None)
        for _ in range(2):
            callback.on_step_begin(args, state, None)
            if hooks.hook is not None and not hooks.removed:
                hooks.hook(module, ())
            clock.return_value += 10
            state.global_step += 1
            callback.on_step_end(args, state, None)
            parallel = getattr(module, "_orig_mod", module)
            if isinstance(parallel, Parallel):
                parallel.steps += 1
        callback.on_train_end(args, state, None)
    return bar.lines if bar else []


@pytest.mark.parametrize(
    ("args", "module", "lines"),
    [
        (ALONE, None, [(101, "loss 2, 0.6 samples/s"), (102, "loss 2, 0.6 samples/s"), (102, "loss 2, 0.6 samples/s")]),
        # DDP knows of a step when the next one begins
        (BATCH, Parallel(),
         [(101, "loss 2, 1.2 samples/s"), (102, "loss 2, 1.2 samples/s, waiting 10%"),
          (102, "loss 2, 1.2 samples/s, waiting 10%")]),
        # compiled
        (BATCH, SimpleNamespace(_orig_mod=Parallel()),
         [(101, "loss 2, 1.2 samples/s"), (102, "loss 2, 1.2 samples/s, waiting 10%"),
          (102, "loss 2, 1.2 samples/s, waiting 10%")]),
        # something else makes ranks of it
        (BATCH, SimpleNamespace(),
         [(101, "loss 2, 1.2 samples/s")] + [(102, "loss 2, 1.2 samples/s")] * 2),
    ],
)  # fmt: skip
def test_each_line_of_a_training_has_what_is_new(
    progress: Any, hooks: Hooks, args: Any, module: Any, lines: list[tuple[int, str]]
) -> None:
    assert train(progress, hooks, args, module, Bar()) == lines
    assert hooks.removed == (args.world_size > 1)
    parallel = getattr(module, "_orig_mod", module)
    assert not isinstance(parallel, Parallel) or parallel.rate == 1


@pytest.mark.parametrize("counted", [{}, {"iteration": 0}, {"iteration": 7}, {"avg_backward_comm_time": 5}])
def test_what_torch_has_not_counted_ends_no_training(progress: Any, counted: Mapping[str, int]) -> None:
    parallel = SimpleNamespace(_get_ddp_logging_data=lambda: counted)

    assert progress.count_waited(parallel) is None


@pytest.mark.parametrize("bar", [None, Bar(disable=True)])
def test_nothing_is_measured_that_nobody_sees(progress: Any, hooks: Hooks, bar: Bar | None) -> None:
    lines = train(progress, hooks, BATCH, Parallel(), bar)

    assert not any(text for _, text in lines) and hooks.hook is None


def test_a_line_that_is_not_due_is_not_worked_out(progress: Any, hooks: Hooks) -> None:
    lines = train(progress, hooks, ALONE, None, Bar(mininterval=15, last_print_t=1000))

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
