"""What is read of a training: what its files say together, and what is left out of broken and hostile ones."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.report import trainings
from multinode_image.report.page import write_page
from multinode_image.report.trainings import SPEED, WAITING, find_trainings, parse_row, read_end, read_training
from tests.support.growth import assert_linear

Rows = Sequence[Mapping[str, object]]
NAN = math.nan
NO_STEPS: Sequence[object] = ("1", None, -1, 1.5, NAN, 2**60, True, [])


def begin(step: int = 0, **more: object) -> dict[str, object]:
    return {"began": 1.0, "step": step, "batch": 8, **more}


def logged(step: object, **values: object) -> dict[str, object]:
    return {"step": step, "time": 0.0, "logged": values}


def moment(step: object, now: object, waited: object = None) -> dict[str, object]:
    return {"step": step, "time": now, "waited": waited}


def leave(place: Path, history: Rows | str | None = None, **states: object) -> str:
    """Write what a training leaves; states: by the steps of checkpoints, `s0` is the directory itself."""
    (place / "_multinode").mkdir(parents=True, exist_ok=True)
    if history is not None:
        rows = history if isinstance(history, str) else "\n".join(map(json.dumps, history))
        (place / "_multinode/history.jsonl").write_text(rows)
    for number, (name, state) in enumerate(states.items()):
        file = place / ("" if name == "s0" else f"checkpoint-{name[1:]}") / "trainer_state.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(state if isinstance(state, str) else json.dumps(state))
        os.utime(file, (number, number))
    return str(place)


def state(*rows: object) -> dict[str, object]:
    return {"log_history": list(rows), "max_steps": 40}


@pytest.mark.parametrize(
    ("history", "states", "curves"),
    [
        pytest.param(None, {"s0": state({"step": 1, "loss": 2}, {"step": 2, "loss": 1.5, "epoch": 1})},
                     {"loss": [(1, 2), (2, 1.5)]}, id="of another image"),
        pytest.param(None, {"s0": state({"step": 1, "loss": 9}), "s5": state({"step": 1, "loss": 2}), "s6": "{"},
                     {}, id="the newest is broken"),
        pytest.param(None, {"s0": state({"step": 1, "loss": 9}), "s5": state({"step": 1, "loss": 2})},
                     {"loss": [(1, 2)]}, id="the state that was written last"),
        pytest.param([begin(), logged(1, loss=3), logged(2, loss=2)], {"s0": state({"step": 2, "loss": 9})},
                     {"loss": [(1, 3), (2, 2)]}, id="the history counts"),
        pytest.param([begin(5), logged(6, loss=3)], {"s5": state({"step": 4, "loss": 9}, {"step": 5, "loss": 8})},
                     {"loss": [(4, 9), (6, 3)]}, id="begun in another image"),
        pytest.param([begin(), logged(4, loss=4), logged(6, loss=9), begin(4), logged(5, loss=3)], {},
                     {"loss": [(4, 4), (5, 3)]}, id="gone on at step 4"),
        pytest.param([begin(), logged(4, loss=4), begin(), logged(1, loss=5)], {}, {"loss": [(1, 5)]}, id="anew"),
        pytest.param([begin(), logged(1, loss="x", a=True, b=None, c=[1], d={"e": 1}, f=2)], {}, {"f": [(1, 2)]},
                     id="no numbers"),
        pytest.param([begin(), *(logged(step, loss=1) for step in NO_STEPS), logged(3, loss=1)], {},
                     {"loss": [(3, 1)]}, id="no steps"),
        pytest.param([begin(), logged(1, loss=math.inf), logged(2, loss=-math.inf)], {},
                     {"loss": [(1, math.inf), (2, -math.inf)]}, id="no finite numbers"),
        pytest.param([begin(), logged(1, eval_runtime=1, train_samples_per_second=2, total_flos=3, train_loss=4)], {},
                     {}, id="about itself"),
        pytest.param("\n\n{\n[1]\n7\n" + json.dumps(logged(1, loss=1)) + "\n{\"step\": 2, \"log", {},
                     {"loss": [(1, 1)]}, id="cut off"),
        pytest.param(None, {"s0": "[" * 100_000}, {}, id="deep"),
        pytest.param(None, {"s0": '{"log_history": {"step": 1}}'}, {}, id="no list"),
        pytest.param(None, {"s0": state(1, None, [], {"loss": 2}, {"step": 1, "loss": 3})}, {"loss": [(1, 3)]},
                     id="no rows"),
    ],
)  # fmt: skip
def test_curves(tmp_path: Path, history: Rows | str | None, states: dict[str, Any], curves: object) -> None:
    training = read_training(leave(tmp_path / "x", history, **states))

    assert {name: points for name, points in training.curves.items() if name not in (SPEED, WAITING)} == curves
    assert write_page([training]).endswith("</html>")


def test_a_value_that_is_no_number_stays_one(tmp_path: Path) -> None:
    [(step, value)] = read_training(leave(tmp_path / "x", [begin(), logged(1, loss=NAN)])).curves["loss"]

    assert step == 1 and math.isnan(value)


@pytest.mark.parametrize(
    ("rows", "speed", "waiting"),
    [
        ([begin(), moment(1, 10, 0), moment(3, 12, 0.5)], [(3, 8.0)], [(3, 25.0)]),
        ([begin(), moment(1, 10), moment(3, 12)], [(3, 8.0)], None),
        ([begin(batch="x"), moment(1, 10, None), moment(3, 12, 1)], None, [(3, 50.0)]),
        ([begin(), moment(1, 10), moment(1, 12), moment(0, 13), moment(2, 10)], None, None),
        ([begin(), moment(1, NAN), moment(2, math.inf), moment(3, "x"), moment(4, 1), moment(5, 2)], [(5, 8.0)], None),
        ([begin(), moment(1, 1), moment(9, 2), begin(5), moment(6, 9), moment(7, 10)], [(7, 8.0)], None),
        ([begin(), moment(1, 1), moment(5, 2), begin(5), moment(6, 9), moment(7, 10)], [(5, 32.0), (7, 8.0)], None),
        ([moment(1, 1), moment(5, 2)], None, None),
    ],
)
def test_speed_and_waiting(tmp_path: Path, rows: Rows, speed: object, waiting: object) -> None:
    curves = read_training(leave(tmp_path / "x", rows)).curves

    assert (curves.get(SPEED), curves.get(WAITING)) == (speed, waiting)


def test_speed_is_measured_over_parts_of_a_start(tmp_path: Path) -> None:
    rows = [begin(), *(moment(step, step * 1.0) for step in range(10_001))]

    assert len(read_training(leave(tmp_path / "x", rows)).curves[SPEED]) == trainings.PARTS


def test_names_are_bounded_and_have_no_secrets(tmp_path: Path) -> None:
    many = {f"m{number}": 1 for number in range(1000)}
    rows = [begin(), logged(1, **{"n" * 1000: 1, "token=hf_abcdefghijklmnopqrstuvwx": 2}), logged(1, **many)]

    names = [*read_training(leave(tmp_path / "x", rows)).curves]

    assert len(names) == trainings.NAMES and max(map(len, names)) == trainings.LETTERS
    assert not any("abcdef" in name for name in names)


def test_metrics_of_the_end(tmp_path: Path) -> None:
    place = leave(tmp_path / "x", [begin()])
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
    (tmp_path / "neither").mkdir()
    for number, name in enumerate(names):
        leave(tmp_path / name, [begin()])
        os.utime(tmp_path / name / "_multinode/history.jsonl", (number, number))

    assert find_trainings(f"{tmp_path}/{asked}".rstrip("/")) == [f"{tmp_path}/{name}" for name in listed]


def test_the_end_of_a_long_history_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "MOST", 2000)
    place = leave(tmp_path / "x", [begin(), *(logged(step, loss=1) for step in range(100))], s0=" " * 3000)
    monkeypatch.setattr(trainings, "read_end", lambda path: read_end(path, 2000))

    training = read_training(place)

    assert [step for step, _ in training.curves["loss"]][-1] == 99 and len(training.curves["loss"]) < 50
    assert len(training.notes) == 2


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")

    assert {read_end(f"{tmp_path}/{name}") for name in ("link", "pipe", "none", "", "a\0b")} == {("", True)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["step", "time", "began", "waited", "logged", "batch", "peak", "steps", "weights", "ranks", "bf16", "script", "<b>"]
)
ROWS = st.lists(st.dictionaries(NAMES, JSON | st.dictionaries(NAMES, JSON, max_size=4), max_size=8), max_size=8)


@given(ROWS, ROWS)
def test_any_rows_make_a_page(tmp_path_factory: pytest.TempPathFactory, history: Any, rows: Any) -> None:
    place = tmp_path_factory.mktemp("any") / "x"
    text = write_page([read_training(leave(place, history, s0={"log_history": rows, "max_steps": rows}))] * 2)

    assert (
        text.endswith("</html>")
        and "<b>" not in text
        and "nan" not in text.partition("<section>")[2].lower().replace("nan or infinite", "")
    )


@pytest.mark.parametrize(
    "row",
    [
        '{"began": 1, "step": 0, "batch": ' + "9" * 400 + "}", '{"began": 1, "step": 0, "batch": 1e400}',
        '{"step": 1, "logged": {"loss": ' + "1" * 400 + "}}", '{"step": 1, "logged": {"' + "n" * 70_000 + '": 1}}',
        '{"step": 1, "logged": {}, "x": ' + "[" * 200 + "]" * 200 + "}",
    ],
)  # fmt: skip
def test_a_row_beyond_any_bound_is_left_out(tmp_path: Path, row: str) -> None:
    rows = [json.dumps(begin()), row, json.dumps(moment(1, 1)), json.dumps(moment(2, 2))]
    training = read_training(leave(tmp_path / "x", "\n".join(rows)))

    assert len(training.starts) == 1 and training.curves == {SPEED: [(2, 8.0)]} and len(training.notes) == 1
    assert write_page([training] * 2).endswith("</html>")


@pytest.mark.parametrize("step", [1, 0, 3200], ids=["undone", "anew", "gone on"])
@pytest.mark.parametrize("row", [logged(1, loss=1), moment(1, 1)], ids=["logged", "moments"])
def test_many_starts_are_read_in_time_by_their_number(tmp_path: Path, step: int, row: Mapping[str, object]) -> None:
    def make(size: int) -> str:
        rows = [{**row, "step": number, "time": number} for number in range(size // 10)] + [begin(step)] * (size // 10)
        rows = [*rows, {**row, "step": 1, "time": 1}, {**row, "step": 2, "time": 2}, begin(step)]
        return "\n".join(map(json.dumps, [begin(), *rows]))

    assert_linear(lambda history: write_page([read_training(leave(tmp_path, history))]), make)


def test_of_a_start_only_what_the_page_says_is_kept(tmp_path: Path) -> None:
    rows = [begin(1, script="s" * 1000, model=["x"] * 500, bf16=True, more="y" * 1000)]
    [start] = read_training(leave(tmp_path / "x", rows)).starts

    facts = {"began": 1.0, "batch": 8, "script": "s" * 100, "model": str(["x"] * 500)[:100], "bf16": True}
    assert start.facts == facts


def test_a_history_of_more_values_than_a_page_has_room_for_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainings, "VALUES", 100)
    rows = [begin(), *(logged(step, **{f"n{number}": 1 for number in range(5)}) for step in range(50))]
    curves = read_training(leave(tmp_path / "x", rows)).curves

    assert [step for step, _ in curves["n0"]] == list(range(38, 50))


def test_a_row_of_no_json_is_none() -> None:
    assert [parse_row(text) for text in ("", "{", "9" * 10_000, "\0", "NaN,")] == [None] * 5
