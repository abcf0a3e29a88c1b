"""What is read of a training: what its files say together, and what is left out of broken and hostile ones."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.report import trainings
from multinode_image.report.page import write_page
from multinode_image.report.trainings import add, find_trainings, measure, read_training
from multinode_image.results import checkpoints, states
from multinode_image.results.states import FACTS, LETTERS, MOST_STARTS, SPEED, STARTS, WAITING, read_starts, read_state
from tests.support.growth import assert_linear

NAN = math.nan
NO_STEPS: tuple[object, ...] = ("1", None, -1, 1.5, NAN, 2**60, True, [])
# Where a state is left: in our directory, in that for results itself, or in a checkpoint.
PLACES = {"ours": "_multinode", "root": "."}


def leave(place: Path, **left: object) -> str:
    """Write what a training leaves, each file a second later; `s5` is the checkpoint of that step."""
    place.mkdir(parents=True, exist_ok=True)
    for number, (name, state) in enumerate(left.items()):
        file = place / PLACES.get(name, f"checkpoint-{name[1:]}") / "trainer_state.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(state if isinstance(state, str) else json.dumps(state))
        os.utime(file, (number, number))
    return str(place)


def state(*rows: object, **more: object) -> dict[str, object]:
    return {"log_history": list(rows), "max_steps": 40, **more}


def at(step: object, **values: object) -> dict[str, object]:
    return {"step": step, **values}


BROKEN = "is broken, or too large: what it says is left out"


@pytest.mark.parametrize(
    ("left", "curves", "notes"),
    [
        pytest.param({"root": state(at(1, loss=2), at(2, loss=1.5, epoch=1))}, {"loss": [(1, 2), (2, 1.5)]}, 0,
                     id="of plain transformers"),
        pytest.param({"root": state(at(1, loss=9)), "s5": state(at(1, loss=2)), "ours": state(at(1, loss=3))},
                     {"loss": [(1, 3)]}, 0, id="ours was written last"),
        pytest.param({"s6": state(at(6, loss=9), global_step=7), "ours": state(at(4, loss=4), global_step=5)},
                     {"loss": [(4, 4)]}, 0, id="gone on from an older checkpoint"),
        pytest.param({"ours": state(at(1, loss=9)), "s5": state(at(1, loss=2))}, {"loss": [(1, 2)]}, 0,
                     id="gone on without the image"),
        pytest.param({"s4": state(at(1, loss=9)), "s5": state(at(1, loss=2))}, {"loss": [(1, 2)]}, 0,
                     id="the newest checkpoint"),
        pytest.param({"s600": state(at(1, loss=9)), "s10": state(at(1, loss=2))}, {"loss": [(1, 2)]}, 0,
                     id="begun anew without the image"),
        pytest.param({"s1": state(at(1, loss=9)), "s2": "", "s3": "[]", "s4": "{}"}, {}, 3, id="no more than three"),
        pytest.param({"ours": state(at(1, loss=3)), "s5": '{"log_'}, {"loss": [(1, 3)]}, 1, id="half written"),
        pytest.param({"root": "{"}, {}, 1, id="broken"),
        pytest.param({"root": "[]"}, {}, 1, id="no object"),
        pytest.param({"root": "[" * 100_000}, {}, 1, id="deep"),
        pytest.param({"root": '{"log_history": ' + "9" * 400 + "}"}, {}, 1, id="long"),
        pytest.param({"root": '{"log_history": 1e400}'}, {}, 1, id="large"),
        pytest.param({"root": '{"log_history": {"step": 1}}'}, {}, 0, id="no list"),
        pytest.param({"root": state(1, None, [], {"loss": 2}, at(1, loss=3))}, {"loss": [(1, 3)]}, 0, id="no rows"),
        pytest.param({"root": state(at(1, loss="x", a=True, b=None, c=[1], d={"e": 1}, f=2))}, {"f": [(1, 2)]}, 0,
                     id="no numbers"),
        pytest.param({"root": state(*(at(step, loss=1) for step in NO_STEPS), at(3, loss=1))}, {"loss": [(3, 1)]}, 0,
                     id="no steps"),
        pytest.param({"root": state(at(1, loss=math.inf), at(2, loss=-math.inf))},
                     {"loss": [(1, math.inf), (2, -math.inf)]}, 0, id="no finite numbers"),
        pytest.param({"root": state(at(2, loss=1), at(1, loss=2), at(2, loss=3))}, {"loss": [(1, 2), (2, 3)]}, 0,
                     id="the last at a step, in order"),
        pytest.param({"root": state(at(1, eval_runtime=1, train_samples_per_second=2, total_flos=3, train_loss=4))},
                     {}, 0, id="about itself"),
        pytest.param({"root": state(at(1, samples_per_second=1, waiting=2))}, {SPEED: [(1, 1)], WAITING: [(1, 2)]}, 0,
                     id="speed and waiting"),
    ],
)  # fmt: skip
def test_curves(tmp_path: Path, left: dict[str, Any], curves: object, notes: int) -> None:
    training = read_training(leave(tmp_path / "x", **left))

    assert training.curves == curves
    assert len(training.notes) == notes and all(note.endswith(BROKEN) for note in training.notes)
    assert write_page([training]).endswith("</html>")


def test_a_value_that_is_no_number_stays_one(tmp_path: Path) -> None:
    [(step, value)] = read_training(leave(tmp_path / "x", ours=state(at(1, loss=NAN)))).curves["loss"]

    assert step == 1 and math.isnan(value)


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({"global_step": 7}, (7, 40)), ({}, (0, 40)), ({"global_step": 7, "max_steps": -1}, (7, 0)),
        ({"global_step": "7", "max_steps": NAN}, (0, 0)), ({"global_step": 2**60, "max_steps": True}, (0, 0)),
    ],
)  # fmt: skip
def test_steps(tmp_path: Path, fields: dict[str, object], steps: tuple[int, int]) -> None:
    training = read_training(leave(tmp_path / "x", ours=state(**fields)))

    assert (training.step, training.total) == steps


def test_starts_are_told_by_our_state_whatever_was_written_last(tmp_path: Path) -> None:
    """A script writes the state at its end as well, which then is the last one."""
    ours = state(at(1, loss=1), **{STARTS: [{"step": 0}, {"step": 4}]})

    for place in (leave(tmp_path / "a", ours=ours), leave(tmp_path / "b", ours=ours, root=state(at(2, loss=2)))):
        assert read_training(place).starts == ({"step": 0}, {"step": 4})
    assert read_training(leave(tmp_path / "c", root=state())).starts == ()


RUN: dict[str, object] = {"batch": 8, "seconds": 2.0, "steps": 2}


@pytest.mark.parametrize(
    ("starts", "measured"),
    [
        pytest.param([{**RUN, "waited": 0.5}], {SPEED: 8.0, WAITING: 25.0}, id="both"),
        pytest.param([{**RUN, "waited": 0}], {SPEED: 8.0, WAITING: 0.0}, id="nothing waited"),
        pytest.param([RUN], {SPEED: 8.0}, id="one rank"),
        pytest.param([{**RUN, "seconds": 0.5}], {SPEED: 32.0}, id="half a second"),
        pytest.param([RUN, {"batch": 16, "seconds": 6.0, "steps": 3}], {SPEED: 8.0}, id="two starts"),
        pytest.param([{**RUN, "batch": "x", "waited": 1}], {WAITING: 50.0}, id="no batch"),
        pytest.param([{**RUN, "steps": 0}], {}, id="one step"),
        pytest.param([{**RUN, "seconds": 0.0}, {}, {"seconds": None}], {}, id="no time"),
        pytest.param([{**RUN, "seconds": NAN}], {}, id="no number of seconds"),
        pytest.param([{**RUN, "batch": 1e308, "steps": 1e308}], {}, id="beyond all numbers"),
        pytest.param([], {}, id="no start"),
    ],
)
def test_speed_and_waiting(starts: list[dict[str, object]], measured: object) -> None:
    assert measure(starts) == measured


def test_only_starts_with_all_numbers_are_added() -> None:
    assert add([RUN, {"batch": 3}, {"batch": "2", "steps": 2}, {"batch": 4, "steps": 5}], "batch", "steps") == 36


ALL: dict[str, object] = {
    "began": 1.0, "step": 2, "script": "train.py", "model": "bert", "weights": 3, "ranks": 4, "batch": 5, "bf16": False,
    "gradients": "int8", "threads": "6", "torch": "2.13.0", "transformers": "5.23.0", "time": 7.0, "seconds": 8.0,
    "steps": 9, "waited": 10.0, "peak": 11,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "starts"),
    [
        ({}, []), ({STARTS: None}, []), ({STARTS: {"step": 1}}, []), ({STARTS: [1, None, [], {}]}, [{}]),
        ({STARTS: [{"step": 1, "more": 2, "waited": None, "bf16": True}]}, [{"step": 1, "bf16": True}]),
        ({STARTS: [ALL]}, [ALL]),
        ({STARTS: [{"script": "s" * 1000, "model": ["x"] * 500}]},
         [{"script": "s" * LETTERS, "model": str(["x"] * 500)[:LETTERS]}]),
        ({STARTS: [{"step": step} for step in range(MOST_STARTS + 1)]},
         [{"step": step} for step in range(1, MOST_STARTS + 1)]),
    ],
)  # fmt: skip
def test_of_starts_only_what_the_page_says_is_kept(kept: dict[str, object], starts: list[object]) -> None:
    assert read_starts(kept) == starts


def test_names_are_bounded_and_have_no_secrets(tmp_path: Path) -> None:
    many = {f"m{number}": 1 for number in range(1000)}
    rows = [at(1, **{"n" * 1000: 1, "token=hf_abcdefghijklmnopqrstuvwx": 2}), at(1, **many)]

    names = [*read_training(leave(tmp_path / "x", ours=state(*rows))).curves]

    assert len(names) == trainings.NAMES and max(map(len, names)) == LETTERS
    assert not any("abcdef" in name for name in names)


def test_metrics_of_the_end(tmp_path: Path) -> None:
    place = leave(tmp_path / "x", ours=state())
    Path(place, "all_results.json").write_text('{"eval_f1": 88.5, "eval_loss": null, "epoch": 2.0}')

    assert read_training(place).metrics == {"eval_f1": 88.5, "epoch": 2.0}


@pytest.mark.parametrize(
    ("names", "asked", "listed"),
    [
        (["a"], "a", ["a"]),
        (["a", "b", "c"], "", ["c", "b", "a"]),
        ([], "", []),
    ],
)
def test_a_directory_of_trainings_is_all_of_them(
    tmp_path: Path, names: list[str], asked: str, listed: list[str]
) -> None:
    (tmp_path / "neither/_multinode").mkdir(parents=True)
    (tmp_path / "neither/_multinode/history.jsonl").write_text('{"began": 1, "step": 0}\n')  # as in versions before
    for number, name in enumerate(names):
        leave(tmp_path / name, ours=state())
        os.utime(tmp_path / name / "_multinode/trainer_state.json", (number, number))

    assert find_trainings(f"{tmp_path}/{asked}".rstrip("/")) == [f"{tmp_path}/{name}" for name in listed]


def test_a_training_is_as_new_as_the_last_that_it_has_left(tmp_path: Path) -> None:
    for path, written in (("a/_multinode", 1), ("a/checkpoint-4", 3), ("b/_multinode", 2)):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "trainer_state.json").write_text("{}")
        os.utime(tmp_path / path / "trainer_state.json", (written, written))

    assert find_trainings(str(tmp_path)) == [f"{tmp_path}/a", f"{tmp_path}/b"]


@pytest.mark.parametrize("name", ["MOST_STATE", "VALUES"])
def test_a_state_of_more_bytes_or_values_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    place = leave(tmp_path / "x", ours=state(*(at(step, loss=1) for step in range(100))), root=state(at(1, loss=2)))
    os.utime(tmp_path / "x/_multinode/trainer_state.json", (9, 9))
    assert len(read_training(place).curves["loss"]) == 100

    monkeypatch.setattr(checkpoints, name, 100)

    assert read_training(place).curves["loss"] == [(1, 2)] and len(read_training(place).notes) == 1


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"a": 1}')
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")

    assert [read_state(f"{tmp_path}/{name}") for name in ("link", "pipe", "none", "", "a\0b")] == [{}] * 5
    assert read_state(f"{tmp_path}/secret") == {"a": 1}


def test_what_may_not_be_read_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> bytes:
        raise PermissionError

    monkeypatch.setattr(checkpoints, "read_state_file", refuse)

    assert states.read_state("x") == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*FACTS, "global_step", "max_steps", "log_history", STARTS, "loss", SPEED, WAITING, "<b>"])
ROWS = st.lists(st.dictionaries(NAMES, JSON | st.dictionaries(NAMES, JSON, max_size=4), max_size=8), max_size=8)
STATES = st.fixed_dictionaries(
    {"log_history": ROWS | JSON, STARTS: ROWS | JSON, "max_steps": JSON, "global_step": JSON}
) | st.dictionaries(NAMES, JSON)


@given(STATES, STATES)
def test_any_states_make_a_page(tmp_path_factory: pytest.TempPathFactory, ours: Any, root: Any) -> None:
    place = tmp_path_factory.mktemp("any") / "x"
    text = write_page([read_training(leave(place, root=root, ours=ours))] * 2)

    assert (
        text.endswith("</html>")
        and "<b>" not in text
        and "nan" not in text.partition("<section>")[2].lower().replace("nan or infinite", "")
    )


@pytest.mark.parametrize(
    "row", [at(1, loss=1), {"step": 1, "batch": 8, "seconds": 1.0, "steps": 2}], ids=["rows", "starts"]
)
@pytest.mark.parametrize("key", ["log_history", STARTS])
def test_a_long_state_is_read_in_time_by_its_length(tmp_path: Path, key: str, row: Mapping[str, object]) -> None:
    def make(size: int) -> str:
        return json.dumps({key: [{**row, "step": number} for number in range(size // 10)]})

    assert_linear(lambda text: write_page([read_training(leave(tmp_path, ours=text))]), make)
