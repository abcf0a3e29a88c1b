"""What the Trainer asks at its steps: progress, speed, the last checkpoint and the best model; torch is made up."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

PACKAGE = "multinode_image.hooks.trainer"
ARGS = SimpleNamespace(train_batch_size=4, gradient_accumulation_steps=2, world_size=3)  # 24 examples a step


class Bar:
    """tqdm's, which says what stands behind it; a line is due after 10 seconds."""

    def __init__(self, disable: bool) -> None:
        self.disable, self.mininterval, self.last_print_t, self.said = disable, 10, 0.0, list[str]()

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        assert not refresh
        self.said.append(text)


class ProgressCallback:
    """The one of transformers, which shows progress on rank 0 alone."""

    def __init__(self, bar: Bar | None = None) -> None:
        self.training_bar, self.asked = bar, list[str]()

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.asked.append("begin")

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.asked.append("step")

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.asked.append("end")


class Ranks:
    """torch.distributed, as a rank sees it whose other ranks have these numbers and bytes."""

    ReduceOp = SimpleNamespace(MAX=max)

    def __init__(self) -> None:
        self.others, self.first, self.asked = list[list[int]](), iter([b""]), list[str]()

    def all_reduce(self, values: Any, op: Callable[..., int]) -> None:
        self.asked.append("reduce")
        for other in self.others:
            values[:] = [op(*pair) for pair in zip(values, other, strict=True)]

    def broadcast(self, tensor: Weight, source: int) -> None:
        self.asked.append(f"from {source}")
        tensor.data = next(self.first)

    def barrier(self) -> None:
        self.asked.append("barrier")


class Numbers(list[int]):
    """A tensor of whole numbers."""

    def __bool__(self) -> bool:
        return bool(self[0])


class Weight:
    """A tensor of bytes, in one piece or in several."""

    def __init__(self, data: bytes, in_one_piece: bool = True) -> None:
        self.data, self.in_one_piece = data, in_one_piece

    def numel(self) -> int:
        return len(self.data)

    def detach(self) -> Weight:
        return self

    def contiguous(self) -> Weight:
        return self if self.in_one_piece else Weight(self.data)

    def reshape(self, size: int) -> Weight:
        return self

    def view(self, kind: object) -> Weight:
        return self

    def __getitem__(self, part: slice) -> Weight:
        return Weight(self.data[part])

    def numpy(self) -> memoryview:
        return memoryview(self.data)

    def data_ptr(self) -> int:
        return id(self)

    def copy_(self, other: Weight) -> None:
        self.data = other.data


class Model:
    """torch.nn.Module, of which a part is only on this rank, and one is empty."""

    def __init__(self, first: bytes = b"a") -> None:
        part = Weight(b"b")
        vars(part)["_local_tensor"] = None
        self.all = [Weight(first), Weight(b""), part, Weight(b"c", in_one_piece=False)]

    def parameters(self) -> list[Weight]:
        return self.all[:3]

    def buffers(self) -> list[Weight]:
        return self.all[3:]


@pytest.fixture
def ranks() -> Ranks:
    return Ranks()


@pytest.fixture
def load(ranks: Ranks) -> Iterator[Callable[[str], Any]]:
    """Return what imports one of the hooks anew, with stand-ins."""
    names = ("torch", "torch.distributed", "transformers", "transformers.trainer_callback")
    modules: dict[str, Any] = {name: ModuleType(name) for name in names}
    torch = vars(modules["torch"])
    torch.update(tensor=Numbers, distributed=ranks, uint8=None, nn=SimpleNamespace(Module=Model))
    modules["torch.distributed"] = ranks
    vars(modules["transformers.trainer_callback"]).update(TrainerCallback=object, ProgressCallback=ProgressCallback)
    loaded = list[str]()

    def load(name: str) -> Any:
        loaded.append(f"{PACKAGE}.{name}")
        sys.modules.pop(loaded[-1], None)
        return importlib.import_module(loaded[-1])

    with mock.patch.dict(sys.modules, modules):
        yield load
    for name in loaded:
        sys.modules.pop(name, None)


def state(step: int, *history: dict[str, Any]) -> Any:
    return SimpleNamespace(global_step=step, log_history=list(history))


# Progress and speed.

HISTORY = [{"loss": 0.5}, {"loss": 0.25, "step": 100}, {"eval_loss": 2.0}]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(105, 9.9, 0)], ["3.0 samples/s, waiting 0%"]),
        ([(105, 10, 5)], ["12.0 samples/s, waiting 50%", "3.0 samples/s, waiting 12%"]),
        ([(105, 10, 9)], ["12.0 samples/s, waiting 90%", "3.0 samples/s, waiting 22%, less"]),
        (
            [(119, 10, 5), (120, 20, 10), (140, 30, 20)],
            ["45.6 samples/s, waiting 50%", "2.4 samples/s, waiting 50%, less", "48.0 samples/s, waiting 100%",
             "24.0 samples/s, waiting 50%"],
        ),
        ([(120, 10, 2)], ["48.0 samples/s, waiting 20%", "12.0 samples/s, waiting 5%"]),
        ([(120, 10, None)], ["48.0 samples/s", "12.0 samples/s"]),
    ],
)  # fmt: skip
def test_a_line_of_progress_says_the_speed_and_once_what_helps(
    load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, steps: Any, expected: list[str]
) -> None:
    """Steps, with the seconds since the beginning, and those of them that were waited; the last line comes after 40."""
    progress = load("progress")
    now = SimpleNamespace(at=0.0)
    times = SimpleNamespace(time=lambda: now.at, monotonic=lambda: 2 + now.at)
    monkeypatch.setattr(progress, "time", times)
    monkeypatch.setattr(progress.SEEN, "sent", "float32")
    monkeypatch.setattr(progress.SEEN, "waited", 1.0 if steps[0][2] is not None else None)
    bar = Bar(False)
    shown = progress.Progress(bar)

    shown.on_train_begin(ARGS, state(100), None)
    assert [bar.n, bar.initial, bar.last_print_n, shown.current_step] == [100] * 4  # type: ignore[attr-defined]
    assert (bar.miniters, bar.dynamic_miniters, bar.write) == (1, False, print)  # type: ignore[attr-defined]
    for step, seconds, waited in steps:
        now.at, progress.SEEN.waited, before = seconds, waited if waited is None else 1.0 + waited, len(bar.said)
        shown.on_step_end(ARGS, state(step), None)
        if len(bar.said) > before:
            bar.last_print_t = now.at
    now.at = 40.0
    shown.on_train_end(ARGS, state(step, *HISTORY), None)

    assert shown.asked == ["begin", *["step"] * len(steps), "end"]
    assert bar.said[-1].startswith("loss 0.25, ")
    bar.said[-1] = bar.said[-1].removeprefix("loss 0.25, ")
    assert [text.partition(" waiting by")[0] for text in bar.said] == expected


@pytest.mark.parametrize("bar", [None, Bar(True)])
def test_where_no_progress_is_shown_nothing_is_said(load: Callable[[str], Any], bar: Bar | None) -> None:
    shown = load("progress").Progress(bar)

    shown.on_train_begin(ARGS, state(0), None)
    shown.on_step_end(ARGS, state(1), None)
    shown.on_train_end(ARGS, state(1), None)

    assert shown.asked == ["begin", "step", "end"] and (bar is None or not bar.said)


@pytest.mark.parametrize(("sent", "helps"), [("float32", True), ("off", True), ("bf16", False), ("int8", False)])
def test_less_is_sent_only_where_all_is(load: Callable[[str], Any], sent: str, helps: bool) -> None:
    progress = load("progress")
    first, now = progress.Point(0, 0.0, None), progress.Point(20, 10.0, 5.0)

    [said] = progress.advise(first, now, sent)

    assert (progress.LESS in said) is helps and said.endswith(progress.LARGER)


@pytest.mark.parametrize(("kind", "terminal", "is_ours"), [
    (ProgressCallback, False, True), (ProgressCallback, True, False), (object, False, False)
])  # fmt: skip
def test_progress_of_ours_is_shown_in_a_log(
    load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, kind: type, terminal: bool, is_ours: bool
) -> None:
    progress, module = load("progress"), SimpleNamespace(DEFAULT_PROGRESS_CALLBACK=kind)
    monkeypatch.setattr(progress.os, "isatty", lambda _: terminal)

    progress.show_progress(module)

    assert module.DEFAULT_PROGRESS_CALLBACK is (progress.Progress if is_ours else kind)


@pytest.mark.parametrize(
    ("step", "now", "waited", "logs", "expected"),
    [
        (10, 10, 1.5, {"loss": 1}, {"samples_per_second": 24.0, "waiting": 10.0}),
        (10, 8, None, {"loss": 1}, {"samples_per_second": 30.0}),
        (10, 8, 2.5, {"eval_loss": 1}, {}),
        (10, 8, 2.5, None, {}),
        (0, 8, 2.5, {"loss": 1}, {}),
        (10, 0, 2.5, {"loss": 1}, {}),
    ],
)
def test_rows_of_a_training_have_its_speed(
    load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, step: int, now: int, waited: float | None, logs: Any,
    expected: dict[str, float],
) -> None:  # fmt: skip
    speed = load("speed")
    times = iter([0.0, float(now), 2.0 * now])
    monkeypatch.setattr(speed, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(speed.SEEN, "waited", None if waited is None else 0.5)
    watched, history = speed.Speed(), [{"step": 3}, {"step": step}]
    watched.on_train_begin(ARGS, state(0), None)
    speed.SEEN.waited = waited
    given = None if logs is None else dict(logs)

    watched.on_log(ARGS, state(step, *history), None, logs=given)

    assert given == (None if logs is None else {**logs, **expected})
    assert history == [{"step": 3}, {"step": step, **expected}]
    if expected:
        later = {"loss": 1}
        watched.on_log(ARGS, state(2 * step), None, logs=later)
        assert later["samples_per_second"] == expected["samples_per_second"] and later.get("waiting") in (None, 0.0)


def test_a_row_of_another_step_is_none_of_these(load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    speed = load("speed")
    times = iter([0.0, 1.0])
    monkeypatch.setattr(speed, "time", SimpleNamespace(monotonic=lambda: next(times)))
    watched, row = speed.Speed(), {"step": 1}
    watched.on_train_begin(ARGS, state(0), None)

    watched.on_log(ARGS, state(2, row), None, logs={"loss": 1})

    assert row == {"step": 1}


# The end.


class Signals(SimpleNamespace):
    """The signals of this process: how SIGTERM is answered."""

    SIGTERM, SIG_DFL = signal.SIGTERM, signal.SIG_DFL
    answer: Any = signal.SIG_DFL
    is_first_thread = True

    def getsignal(self, _: int) -> Any:
        return self.answer

    def signal(self, _: int, answer: Any) -> None:
        if not self.is_first_thread:
            raise ValueError
        self.answer = answer


def arguments(**fields: Any) -> Any:
    return SimpleNamespace(**{"world_size": 2, "process_index": 0, "save_strategy": "steps", **fields})


@pytest.mark.parametrize(
    ("fields", "answer", "listens"),
    [
        ({}, signal.SIG_DFL, True),
        ({"save_strategy": SimpleNamespace(value="no")}, signal.SIG_DFL, False),
        ({"save_strategy": SimpleNamespace(value="epoch")}, signal.SIG_DFL, True),
        ({"enable_jit_checkpoint": True}, signal.SIG_DFL, False),
        ({}, print, False),
        ({"is_first_thread": False}, signal.SIG_DFL, False),
    ],
)
def test_sigterm_is_ours_while_a_training_saves_unless_it_is_another_s(
    load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], answer: Any, listens: bool
) -> None:
    last = load("last_checkpoint")
    signals = Signals(answer=answer, is_first_thread=fields.pop("is_first_thread", True))
    monkeypatch.setattr(last, "signal", signals)
    args, asked = arguments(**fields), last.LastCheckpoint()

    asked.on_train_begin(args, state(0), None)
    assert (signals.answer == asked.tell) is listens and (asked.listens, asked.told, asked.ends) == (
        listens,
        False,
        False,
    )
    asked.on_train_end(args, state(1), None)
    assert signals.answer == answer


@pytest.mark.parametrize(
    ("fields", "told", "others", "ends", "asked"),
    [
        ({}, True, [[0]], True, ["reduce", "barrier"]),
        ({}, False, [[1]], True, ["reduce", "barrier"]),
        ({"process_index": 1}, False, [[1]], True, ["reduce", "barrier"]),
        ({}, False, [[0]], False, ["reduce"]),
        ({"world_size": 1}, True, [], True, []),
        ({"world_size": 1}, False, [], False, []),
        ({"save_strategy": "no"}, True, [], False, []),
    ],
)
@pytest.mark.parametrize("local", ["0", "1"])
def test_all_ranks_save_and_end_where_one_was_told(
    load: Callable[[str], Any], ranks: Ranks, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    fields: dict[str, Any], told: bool, others: list[list[int]], ends: bool, asked: list[str], local: str,
) -> None:  # fmt: skip
    last = load("last_checkpoint")
    monkeypatch.setattr(last, "signal", Signals())
    monkeypatch.setenv("LOCAL_RANK", local)
    control = SimpleNamespace(should_save=False, should_training_stop=False, should_evaluate=True)
    args, hook, ranks.others = arguments(**fields), last.LastCheckpoint(), others
    hook.on_train_begin(args, state(0), control)
    for _ in range(2 * told):
        hook.tell(signal.SIGTERM, None)

    hook.on_step_end(args, state(7), control)
    assert vars(control) == {"should_save": ends, "should_training_stop": ends, "should_evaluate": not ends}
    with pytest.raises(SystemExit) if ends else nullcontext() as ended:
        hook.on_epoch_end(args, state(7), control)

    assert ranks.asked == asked and (ended is None or ended.value.code == last.CODE == 143)
    said = [last.TOLD] * (told and local == "0")
    if ends and args.process_index == 0:
        said.append("multinode: saved at step 7; the same command goes on from there\n")
    assert capfd.readouterr().err == "".join(said)


def test_a_training_that_ends_by_itself_after_it_was_told_ends_so(
    load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    last = load("last_checkpoint")
    signals = Signals()
    monkeypatch.setattr(last, "signal", signals)
    args, hook = arguments(world_size=1), last.LastCheckpoint()
    hook.on_train_begin(args, state(0), None)
    hook.tell()
    hook.on_step_end(args, state(1), SimpleNamespace())

    with pytest.raises(SystemExit):
        hook.on_train_end(args, state(1), None)
    assert signals.answer == signal.SIG_DFL


# The best model.

BEST = {"load_best_model_at_end": True, "world_size": 2, "process_index": 0}


@pytest.mark.parametrize(
    ("fields", "there", "sends"),
    [
        ({}, [1, 0], True),
        ({}, None, False),
        ({"process_index": 1}, [1, 0], True),
        ({"load_best_model_at_end": False}, [1, 0], False),
        ({"world_size": 1}, [1, 0], False),
        ({"fsdp": "full_shard", "deepspeed": None}, [1, 0], False),
        ({"fsdp": [], "deepspeed": None}, [1, 0], True),
        ({"deepspeed": "a.json"}, [1, 0], False),
        ({"model": None}, [1, 0], False),
    ],
)
def test_ranks_that_have_another_best_model_get_that_of_rank_0(
    load: Callable[[str], Any], ranks: Ranks, capsys: pytest.CaptureFixture[str], fields: dict[str, Any],
    there: list[int] | None, sends: bool,
) -> None:  # fmt: skip
    best = load("best_model")
    model = Model()
    number = best.digest(model)
    ranks.others, ranks.first = [[number, -number] if there is None else there], iter([b"x", b"y", b"z"])
    given = {"model": model, **fields}
    args = SimpleNamespace(**{**BEST, **{name: value for name, value in fields.items() if name != "model"}})

    best.BestModel().on_train_end(args, state(1), None, model=given["model"])

    assert [tensor.data for tensor in model.all] == ([b"x", b"", b"b", b"y"] if sends else [b"a", b"", b"b", b"c"])
    assert ranks.asked in ([], ["reduce", *["from 0"] * 2 * sends])
    said = capsys.readouterr().err
    assert ("rank 0 has sent it" in said) is (sends and args.process_index == 0)


def test_weights_are_told_apart_by_their_beginnings(load: Callable[[str], Any]) -> None:
    best = load("best_model")
    many = bytes(best.ELEMENTS)

    assert best.digest(Model(many)) == best.digest(Model(many + b"1")) != best.digest(Model(many[1:] + b"1"))
    assert best.digest(Model(b"1")) != best.digest(Model(b"2"))


@pytest.mark.parametrize(
    ("name", "watch", "kind", "place"),
    [("speed", "watch_speed", "Speed", 0), ("last_checkpoint", "watch_end", "LastCheckpoint", 1),
     ("best_model", "watch_best", "BestModel", 1)],
)  # fmt: skip
def test_every_trainer_asks(load: Callable[[str], Any], name: str, watch: str, kind: str, place: int) -> None:
    hook, module = load(name), SimpleNamespace(DEFAULT_CALLBACKS=["theirs"])

    getattr(hook, watch)(module)

    assert module.DEFAULT_CALLBACKS.index(getattr(hook, kind)) == place
