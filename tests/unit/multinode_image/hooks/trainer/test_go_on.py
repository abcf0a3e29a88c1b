"""From which checkpoint a training goes on, and which are those of others; with stand-ins for torch and the Trainer."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from multinode_image import timeouts
from multinode_image.errors import LATER, Refusal
from multinode_image.hooks.job import one_job
from multinode_image.hooks.trainer import directory
from multinode_image.results import record
from multinode_image.results.record import Run, begin, write_run
from multinode_image.settings import BEGAN
from tests.support.clocks import Clock

NAME = "multinode_image.hooks.trainer.go_on"
SETTINGS = (
    "learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "weight_decay", "adam_beta1",
    "adam_beta2", "adam_epsilon", "max_grad_norm", "lr_scheduler_type", "warmup_steps", "warmup_ratio", "seed",
    "data_seed", "optim", "label_smoothing_factor",
)  # fmt: skip
FILES = ("model.safetensors", "optimizer.pt", "scheduler.pt", "config.json", "rng_state.pth")


@pytest.fixture
def hook() -> Iterator[Any]:
    modules = {name: ModuleType(name) for name in ("transformers", "transformers.trainer_callback")}
    vars(modules["transformers.trainer_callback"])["TrainerCallback"] = object
    with mock.patch.dict(sys.modules, modules):
        sys.modules.pop(NAME, None)
        yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


class Trainer:
    """A Trainer that tells from what it goes on, and writes two checkpoints through its callbacks."""

    callbacks: list[Any]

    def __init__(self, directory: Path, rows: Any = range(100), parts: Sequence[int] = (), **settings: Any) -> None:
        known: dict[str, Any] = {"learning_rate": 0.1, "max_steps": -1, "save_strategy": "steps", **settings}
        self.args = SimpleNamespace(output_dir=str(directory), world_size=1, process_index=0, should_save=True, **known)
        weights = [SimpleNamespace(numel=partial(int, part)) for part in parts]
        self.model = SimpleNamespace(parameters=lambda: weights)
        self.train_dataset = rows

    def train(self, resume_from_checkpoint: Any = None, trial: Any = None) -> Any:
        for step in (10, 20):
            leave(Path(self.args.output_dir, f"checkpoint-{step}"), step)
            for kind in self.callbacks:
                kind().on_save(self.args, SimpleNamespace(global_step=step), None)
        return resume_from_checkpoint


def leave(place: Path, step: int) -> None:
    """Write a checkpoint as the Trainer does."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "trainer_state.json").write_text(json.dumps({"global_step": step, "max_steps": 40}))
    for name in FILES:
        (place / name).write_text("x")


@pytest.fixture
def start(hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Start a process of the same command, or another one, and return its Trainer."""

    def begin(*words: str, wish: str = "", began: str = "1") -> type[Trainer]:
        hook.BEGUN.clear()
        directory.TAKEN.clear()
        monkeypatch.setattr(sys, "argv", ["train.py", *words])
        for name, value in {"MULTINODE_RESUME": wish, BEGAN: began, record.RUN: ""}.items():
            monkeypatch.setenv(name, value)
        callbacks: list[Any] = []
        kind = type("Trainer", (Trainer,), {"callbacks": callbacks})
        hook.watch_training(SimpleNamespace(Trainer=kind, DEFAULT_CALLBACKS=callbacks))
        return kind

    return begin


def test_the_same_command_goes_on_and_no_other(start: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start()(tmp_path).train() is None
    assert start()(tmp_path).train() == f"{tmp_path}/checkpoint-20"
    assert start("--logging_steps", "5", "--local_rank", "1")(tmp_path).train() == f"{tmp_path}/checkpoint-20"
    assert "goes on from" in capsys.readouterr().err
    assert start("--size", "large")(tmp_path).train() is None
    assert "checkpoint-20 is of another command: begins at step 0; MULTINODE_RESUME=" in capsys.readouterr().err


@pytest.mark.parametrize(
    "other",
    [
        *({name: 0.2} for name in SETTINGS),
        {"rows": range(80)},
        {"parts": (7,)},
    ],
)  # fmt: skip
def test_no_training_takes_the_checkpoint_of_another_one(start: Any, tmp_path: Path, other: dict[str, Any]) -> None:
    """As a fold of a cross-validation, or a setting of a search, in one directory."""
    start()(tmp_path).train()
    assert start()(tmp_path, **other).train() is None


class Part(list[int]):
    """Some examples of others."""

    def __init__(self, *indices: int) -> None:
        super().__init__(indices)
        self.indices = indices


@pytest.mark.parametrize(
    ("rows", "described"), [(range(100), "100"), (Part(1, 2), "2 61c9e7ff"), (Part(1, 3), "2 78d2d6be"), (iter(()), "")]
)
def test_data_are_told_apart_by_what_is_known_without_reading_them(hook: Any, rows: Any, described: str) -> None:
    assert hook.describe_data(rows) == described


def test_the_mark_of_a_checkpoint_is_what_other_releases_have_written(start: Any, tmp_path: Path) -> None:
    """So that a training goes on in a newer image, and in an older one."""
    kind = start("--size", "large", began="12")
    kind(tmp_path, Part(1, 2), (4, 3), optim=SimpleNamespace(value="sgd"), seed=42).train()

    none = dict.fromkeys(SETTINGS, "None")
    assert json.loads((tmp_path / "checkpoint-20/_multinode.json").read_text()) == {
        "command": "136c091c", "training": 1, "data": "2 61c9e7ff",
        "settings": {**none, "learning_rate": "0.1", "optim": "sgd", "seed": "42"},
        "model": "SimpleNamespace 7", "ranks": 1, "began": ["12"], "line": "12",
    }  # fmt: skip


@pytest.mark.parametrize(("total", "ended"), [(20, True), (40, False)])
def test_it_is_said_that_a_training_had_ended(
    start: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], total: int, ended: bool
) -> None:
    """Nothing is trained then, though the script may have been edited."""
    start()(tmp_path).train()
    (tmp_path / "checkpoint-20/trainer_state.json").write_text(json.dumps({"global_step": 20, "max_steps": total}))
    start()(tmp_path).train()
    assert ("where it had ended; MULTINODE_RESUME=no" in capsys.readouterr().err) is ended


def test_each_training_of_a_process_goes_on_by_itself(start: Any, tmp_path: Path) -> None:
    kind = start()
    assert [kind(tmp_path / name).train() for name in ("a", "b", "b")] == [None, None, None]
    kind = start()
    checkpoints = [kind(tmp_path / name).train() for name in ("b", "a")]
    assert checkpoints == [None, f"{tmp_path}/a/checkpoint-20"]  # of "b" the second one has written the last


def test_how_long_a_training_lasts_may_change(start: Any, tmp_path: Path) -> None:
    start()(tmp_path, num_train_epochs=1, logging_steps=1).train()
    assert start()(tmp_path, num_train_epochs=3, logging_steps=9).train() == f"{tmp_path}/checkpoint-20"


def test_a_search_is_left_alone(start: Any, tmp_path: Path) -> None:
    start()(tmp_path).train()
    assert start()(tmp_path).train(trial="one") is None


def test_a_training_within_another_one_is_part_of_it(start: Any, tmp_path: Path) -> None:
    """As one that a callback of the script begins, with the same Trainer."""
    start()(tmp_path).train()
    trainer = start()(tmp_path)
    trainer.is_in_train = True
    assert trainer.train() is None


@pytest.mark.parametrize(
    ("wish", "began", "given", "chosen"),
    [
        ("no", "2", None, None),
        ("no", "2", "no", None),  # by the line of a script
        ("no", "1", None, "checkpoint-20"),  # of this job itself, which torchrun has started again
        ("/elsewhere/checkpoint-5", "2", None, "/elsewhere/checkpoint-5"),
        ("", "2", "mine", "mine"),
        ("no", "2", True, True),
    ],
)
def test_what_the_user_says_goes_before(
    start: Any, tmp_path: Path, wish: str, began: str, given: Any, chosen: Any
) -> None:
    start()(tmp_path).train()
    checkpoint = start(wish=wish, began=began)(tmp_path).train(given)
    assert checkpoint == (f"{tmp_path}/{chosen}" if chosen == "checkpoint-20" else chosen)


@pytest.fixture
def task(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Start a process of a task, which has a record in its directory, and return its Trainer."""

    def begin_task(*, began: str = "1", elsewhere: bool = False, **run: Any) -> Trainer:
        kind = start(began=began)
        of = Run(str(tmp_path / "other" if elsewhere else tmp_path), "clm", (("seed", "1"),), **run)
        monkeypatch.setenv(record.RUN, write_run(of))
        trainer: Trainer = kind(tmp_path)
        return trainer

    return begin_task


def test_a_task_goes_on_from_what_is_its_own_by_its_record(task: Any, tmp_path: Path) -> None:
    """Its command may have other words by now: a flag is renamed, a newer image is used."""
    assert task().train() is None
    (tmp_path / "checkpoint-20/_multinode.json").unlink()
    assert task(began="2").train() == f"{tmp_path}/checkpoint-20"


@pytest.mark.parametrize(("began", "goes_on"), [("1", True), ("2", False)])
def test_a_task_that_begins_anew_goes_on_when_its_ranks_are_started_again(
    task: Any, tmp_path: Path, began: str, goes_on: bool
) -> None:
    task(overwrite=True).train()
    assert task(overwrite=True, began=began).train() == (f"{tmp_path}/checkpoint-20" if goes_on else None)


@pytest.mark.parametrize(("saved", "chosen"), [(False, "named"), (True, "checkpoint-20")])
def test_a_task_goes_on_from_what_is_named_until_it_has_saved(
    task: Any, tmp_path: Path, saved: bool, chosen: str
) -> None:
    """Some scripts never read their flag."""
    named = tmp_path / "named"
    leave(named, 5)
    if saved:
        task(resume_from=str(named)).train()
    assert task(resume_from=str(named)).train() == str(tmp_path / chosen)


def test_a_training_of_a_task_in_another_directory_is_not_its_run(task: Any, tmp_path: Path) -> None:
    task(elsewhere=True).train()
    assert (tmp_path / "checkpoint-20/_multinode.json").exists()
    assert not (tmp_path / "other").exists() and not (tmp_path / "_multinode/run.json").exists()


def test_a_directory_is_taken_once_whatever_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = list[str]()
    monkeypatch.setattr(directory, "TAKEN", set())
    monkeypatch.setattr(directory, "take_lock", lambda shared, _: taken.append(shared.path))
    (tmp_path / "link").symlink_to(tmp_path)

    for place in (tmp_path, tmp_path, tmp_path / "link"):
        directory.hold(str(place))

    assert taken == [f"{tmp_path}/_multinode"]


@pytest.mark.parametrize("rank", [0, 1])
def test_all_ranks_end_where_the_directory_of_rank_0_holds_another_run(
    task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rank: int
) -> None:
    begin(Run(str(tmp_path), "qa", ()), ["0"], lambda _: None)
    leave(tmp_path / "checkpoint-20", 20)
    trainer = task()
    trainer.args.process_index, trainer.args.world_size = rank, 2
    if rank:
        refusal = Refusal("the directory for results holds another run", "qa", "another", 2)
        monkeypatch.setattr(directory, "gather", lambda mine, _: [mine if isinstance(mine, str) else refusal])
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(one_job, "TOLD", [])

    with pytest.raises(SystemExit) as ended:
        trainer.train()

    assert ended.value.code == 2
    assert ("holds another run" in capsys.readouterr().err) is (rank == 0)


def test_who_has_begun_anew_goes_on_from_what_was_written_since(start: Any, tmp_path: Path) -> None:
    """Old checkpoints of later steps are still there."""
    start(began="1795000000000000000")(tmp_path).train()
    leave(tmp_path / "checkpoint-30", 30)
    (tmp_path / "checkpoint-30/_multinode.json").write_text((tmp_path / "checkpoint-20/_multinode.json").read_text())
    assert start(began="1795000000000000001")(tmp_path).train() == f"{tmp_path}/checkpoint-30"
    assert start(began="1795000000000000002", wish="no")(tmp_path).train() is None
    assert start(began="1795000000000000003")(tmp_path).train() == f"{tmp_path}/checkpoint-20"


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda place: (place / "trainer_state.json").unlink(), "is not complete"),
        (lambda place: (place / "optimizer.pt").write_text(""), "is damaged"),
        (lambda place: (place / "_multinode.json").unlink(), "has no mark"),
        (lambda place: (place / "_multinode.json").write_text("[" * 9999), "has no mark"),
        (lambda place: (place / "_multinode.json").write_text('{"settings": 1}'), "is of another command"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_left_and_named(
    start: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Any, why: str
) -> None:
    start()(tmp_path).train()
    spoil(tmp_path / "checkpoint-20")
    assert start()(tmp_path).train() == f"{tmp_path}/checkpoint-10"
    said = capsys.readouterr().err
    assert f"checkpoint-20 {why}" in said and f"goes on from {tmp_path}/checkpoint-10" in said


def test_a_checkpoint_of_somebody_else_is_not_read(
    hook: Any, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start()(tmp_path).train()
    monkeypatch.setattr(hook, "list_owners", lambda *_: [os.getuid() + 7])
    monkeypatch.setattr(hook, "read_mark", mock.Mock(side_effect=AssertionError("it was read")))
    assert start()(tmp_path).train() is None
    assert f"belongs to uid {os.getuid() + 7}" in capsys.readouterr().err


@pytest.mark.parametrize(("ranks", "steps"), [(1, -1), (2, 40)])
def test_another_number_of_ranks_keeps_the_steps(
    hook: Any, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, steps: int
) -> None:
    start()(tmp_path).train()
    kind = start()
    monkeypatch.setattr(hook, "gather", lambda mine, _: [mine])
    trainer = kind(tmp_path)
    trainer.args.world_size = ranks
    trainer.train()
    assert trainer.args.max_steps == steps


@pytest.mark.parametrize(("typed", "steps"), [(-1, 40), (7, 7)])
def test_a_task_keeps_the_steps_of_its_run(
    hook: Any, task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: int, steps: int
) -> None:
    """It was one rank, and is two."""
    task().train()
    monkeypatch.setattr(hook, "gather", lambda mine, _: [mine])
    trainer = task(began="2")
    trainer.args.max_steps, trainer.args.world_size = typed, 2
    assert trainer.train() == f"{tmp_path}/checkpoint-20"
    assert trainer.args.max_steps == steps


def test_a_field_that_a_release_calls_otherwise_is_found(
    hook: Any, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a release to come had total_steps in the place of max_steps."""
    start()(tmp_path).train()
    monkeypatch.setattr(hook, "list_names", lambda name: (name, "total_steps") if name == "max_steps" else (name,))
    monkeypatch.setattr(hook, "gather", lambda mine, _: [mine])
    trainer = start()(tmp_path, total_steps=-1)
    trainer.args.world_size = 2
    del trainer.args.max_steps
    trainer.train()
    assert trainer.args.total_steps == 40


@pytest.mark.parametrize(
    ("steps", "seen", "ends"),
    [([20, 20], [True, True], False), ([10, 20], [True, True], False), ([20, 0], [True, False], True)],
)
def test_all_ranks_go_on_from_the_last_one_that_any_has_seen_or_none_does(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[int], seen: list[bool], ends: bool
) -> None:
    offers = [hook.Offer(step, "digest", []) for step in steps]
    answers = iter([offers, seen])
    monkeypatch.setattr(hook, "gather", lambda *_: next(answers))
    monkeypatch.setattr(hook, "sees", lambda *_: seen[0])
    monkeypatch.setattr(directory, "leave", left := mock.Mock(side_effect=SystemExit(2)))
    args = SimpleNamespace(output_dir=str(tmp_path), process_index=0, world_size=2)
    if ends:
        with pytest.raises(SystemExit):
            hook.agree(args, offers[0])
        assert "not seen by rank 1" in str(left.call_args[0][0])
    else:
        assert hook.agree(args, offers[0]).step == 20


@pytest.mark.parametrize("there", [(), ("trainer_state.json",), ("trainer_state.json", "config.json")])
@pytest.mark.parametrize("comes", [True, False])
def test_a_rank_waits_until_it_sees_a_whole_checkpoint(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes: bool, there: tuple[str, ...]
) -> None:
    """there: which files it sees at first."""
    leave(tmp_path / "checkpoint-20", 20)
    for path in (tmp_path / "checkpoint-20").iterdir():
        if path.name not in there:
            path.unlink()
    leave(tmp_path / "elsewhere/checkpoint-20", 20)
    best = hook.Offer(20, hook.digest_content(str(tmp_path / "elsewhere"), 20), [])

    class Writer(Clock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if comes:
                leave(tmp_path / "checkpoint-20", 20)

    monkeypatch.setattr(hook, "time", Writer())
    assert hook.sees(SimpleNamespace(output_dir=str(tmp_path), process_index=1, world_size=2), best) is comes


@pytest.mark.parametrize(
    ("wrote", "ranks", "waits"),
    [("rng_state_1.pth", 2, False), ("rng_state_0.pth", 2, True), ("rng_state_0.pth", 1, False)],
    ids=["it is there", "only that of another rank", "of a job of another size"],
)
def test_a_rank_waits_for_its_own_random_state_and_does_without_it(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrote: str, ranks: int, waits: bool
) -> None:
    place = tmp_path / "checkpoint-20"
    leave(place, 20)
    best = hook.Offer(20, hook.digest_content(str(tmp_path), 20), [])
    (place / "_multinode.json").write_text(json.dumps({"ranks": ranks}))
    best = hook.Offer(20, hook.digest_content(str(tmp_path), 20), [])
    (place / wrote).write_text("of one node alone")
    monkeypatch.setattr(hook, "time", clock := Clock())

    assert hook.sees(SimpleNamespace(output_dir=str(tmp_path), process_index=1, world_size=2), best)
    assert clock.now == pytest.approx(Clock.now + (timeouts.SEEN if waits else 0), abs=2 * hook.PAUSE)


@pytest.mark.parametrize("first", [0, 1], ids=["at its own first checkpoint", "at once where the other has saved"])
def test_a_second_job_of_a_script_is_refused(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """A process has all locks that it takes itself, so the other job is played."""
    monkeypatch.setattr(timeouts, "DIRECTORY", 0.0)
    monkeypatch.setattr(one_job, "TOLD", [])
    for _ in range(first):
        start()(tmp_path).train()
        assert {str(tmp_path.resolve())} == directory.TAKEN
    kind = start()
    with mock.patch("multinode_image.results.shared.try_lock", return_value=False), pytest.raises(SystemExit) as ended:
        kind(tmp_path).train()
    assert ended.value.code == LATER
    assert (tmp_path / "checkpoint-20").exists() is bool(first)


def test_of_nodes_that_all_save_only_that_of_rank_0_takes_the_directory(start: Any, tmp_path: Path) -> None:
    """As save_on_each_node wants it, on a file system that all nodes share."""
    trainer = start()(tmp_path)
    trainer.args.process_index = 1
    trainer.train()
    assert (tmp_path / "checkpoint-20/_multinode.json").exists() and not (tmp_path / "_multinode").exists()


def test_a_checkpoint_of_another_user_in_the_way_is_named_before_anything_is_trained(
    hook: Any, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start()(tmp_path).train()
    monkeypatch.setattr(one_job, "TOLD", [])
    monkeypatch.setattr(hook, "list_owners", lambda *_: [os.getuid() + 7])
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(SystemExit) as ended:
        start()(tmp_path).train()
    assert ended.value.code == 2 and "in the way" in capsys.readouterr().err


@pytest.mark.parametrize(("goes_on", "begins"), [(False, True), (True, False)])
def test_a_task_without_the_trainer_takes_its_directory_where_its_ranks_have_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool, begins: bool
) -> None:
    class Accelerator:
        process_index, num_processes = 0, 1

    directory.TAKEN.clear()
    directory.watch_accelerator(SimpleNamespace(Accelerator=Accelerator))
    monkeypatch.setenv(record.RUN, write_run(Run(str(tmp_path), "qa-no-trainer", (), goes_on=goes_on)))
    Accelerator()
    assert (tmp_path / "_multinode/run.json").exists() is begins
