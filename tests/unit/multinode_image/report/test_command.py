"""The command `report`, what more nodes would cost, and what Prometheus is told."""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.errors import EXIT_USER, Refusal
from multinode_image.report import command, metrics
from multinode_image.report.command import MOST, write_report
from multinode_image.report.cost import (
    NODES,
    CostOptions,
    estimate_seconds,
    measure_run,
    read_cost_options,
    write_costs,
    write_hours,
)
from multinode_image.report.metrics import PREFIX, serve_beside, write_answer, write_metrics
from multinode_image.report.trainings import Training, read_training
from multinode_image.results.states import SPEED, STARTS, WAITING


def train(place: Path) -> str:
    (place / "_multinode").mkdir(parents=True)
    file = place / "_multinode/trainer_state.json"
    file.write_text(json.dumps({STARTS: [{"began": 1, "step": 0, "script": "train.py"}]}))
    os.utime(file, (1, ord(place.name[-1])))
    return str(place)


@pytest.mark.parametrize(
    ("words", "title"), [([], "train.py in"), (["a/", "b"], "a, b"), (["c"], "train.py in"), (["."], "b, a")]
)
def test_a_page_goes_to_stdout(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    title: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b", "a", "a/c"):
        train(tmp_path / name)

    assert write_report(words, f"{tmp_path}/a") == 0
    assert f"<h1>{title}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "terminal", "value"),
    [
        (["--html"], False, "--html"), (["none"], False, "none"), (["one", "empty"], False, "empty"),
        (["one"], True, "stdout"), ([*map(str, range(MOST + 1))], False, f"{MOST + 1} of {MOST}"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], terminal: bool, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", *map(str, range(MOST + 1))):
        train(tmp_path / name)
    (tmp_path / "empty").mkdir()

    with mock.patch.object(sys.stdout, "isatty", lambda: terminal), pytest.raises(Refusal) as refused:
        write_report(words, "none")

    assert refused.value.code == EXIT_USER and value in refused.value.value


@pytest.mark.parametrize("words", [[], ["HERE"], ["a"]])
def test_costs_are_those_of_the_newest_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    for name in ("a", "b"):
        train(tmp_path / name)
    monkeypatch.setattr(command, "write_costs", lambda training, asked: f"{training.directory} {asked.price:g}")

    assert (
        write_report(
            ["--price=2", *(word.replace("HERE", str(tmp_path)) for word in words), "--network=9"], str(tmp_path)
        )
        == 0
    )
    assert capsys.readouterr().out == f"{tmp_path}/{'a' if words == ['a'] else 'b'} 2\n"


def test_of_many_trainings_in_a_directory_the_newest_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(MOST + 1):
        train(tmp_path / str(number))

    assert write_report([str(tmp_path)], "") == 0
    assert f"the newest {MOST} of {MOST + 1} trainings" in capsys.readouterr().out


FACTS = {"batch": 32, "ranks": 1, "weights": 66e6, "threads": "8", "bf16": False}


def trained(speed: float = 100.0, waited: float | None = None, **more: object) -> Training:
    """Return a training of 1,000 steps."""
    curves = {SPEED: [(1, 1.0), (2, speed), (3, speed)]}
    curves |= {WAITING: [(3, waited)]} if waited is not None else {}
    return Training("results", ({"step": 0, **FACTS, **more},), curves, {}, 1000, 1000)


def seconds(training: Training, options: CostOptions) -> list[float]:
    return [estimate_seconds(measure_run(training, options), options, nodes) for nodes in NODES]


@pytest.mark.parametrize(
    ("words", "options", "directories"),
    [
        ("--price 1.2 --network 119", CostOptions(1.2, 119.0), []),
        ("--price=1 qa --network=2e3 --latency 0.1", CostOptions(1, 2000, 0.1), ["qa"]),
        ("a=b --network 1 --samples 5 --price 3 --sent 87", CostOptions(3, 1, 0, 87, 5), ["a=b"]),
    ],
)
def test_what_is_typed_is_read(words: str, options: CostOptions, directories: list[str]) -> None:
    assert read_cost_options(words.split()) == (options, directories)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--price 1", "--network"),
        ("--network 1", "--price"),
        ("--price 0 --network 1", "'0'"),
        ("--price nan --network 1", "'nan'"),
        ("--price inf --network 1", "'inf'"),
        ("--network --price 1", "'--price'"),
        ("--network 1 --price", "''"),
        ("--price 1 --network 1 --nodes 3", "--nodes"),
    ],
)
def test_anything_else_is_refused(words: str, value: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_cost_options(words.split())

    assert (refused.value.code, refused.value.value) == (2, value)


def test_one_node_takes_what_was_measured() -> None:
    alone, *_ = seconds(trained(waited=20.0), CostOptions(1, 1000))

    assert alone == pytest.approx(1000 * 32 / 100)


def test_a_fast_network_halves_the_time_and_a_slow_one_does_not() -> None:
    fast, slow = (seconds(trained(), CostOptions(1, speed)) for speed in (1e5, 10.0))

    assert fast[0] / fast[1] == pytest.approx(2, rel=0.1)
    assert slow[0] / slow[1] < 1


def test_bf16_sends_half_and_what_is_typed_counts() -> None:
    plain, lowered = (seconds(trained(bf16=lowered_too), CostOptions(1, 20.0)) for lowered_too in (False, True))

    assert lowered[1] < plain[1]
    assert seconds(trained(), CostOptions(1, 20.0, sent=132.0)) == lowered


@given(
    st.floats(0.01, 1e5),
    st.floats(0, 100),
    st.integers(1, 64),
    st.floats(1e3, 1e11),
    st.floats(1, 1e5),
    st.floats(0, 50),
)
def test_no_more_nodes_are_faster_than_by_their_number(
    speed: float, waited: float, ranks: int, weights: float, network: float, latency: float
) -> None:
    options = CostOptions(1, network, latency)
    alone, *others = seconds(trained(speed, waited, ranks=ranks, weights=weights), options)

    compute = alone * (1 - waited / 100)
    assert all(time >= compute / nodes * (1 - 1e-6) for time, nodes in zip(others, NODES[1:], strict=True))


def test_the_table_says_what_is_measured_and_what_is_estimated() -> None:
    text = write_costs(trained(), CostOptions(36, 119, 0.1))

    rows = [line.split() for line in text.splitlines() if re.match(r" +\d", line)]
    assert [row[0] for row in rows] == ["1", "2", "4", "8"]
    assert rows[0][-2:] == ["measured", "speed"] and {row[-1] for row in rows[1:]} == {"estimated"}
    assert "3.20" in rows[0] and "5 min 20 s" in " ".join(rows[0])


@pytest.mark.parametrize(("name", "value"), [("batch", None), ("ranks", "x"), ("ranks", 0)])
def test_a_training_without_a_speed_is_refused(name: str, value: object) -> None:
    facts: dict[str, Any] = {name: value}
    with pytest.raises(Refusal):
        measure_run(trained(**facts), CostOptions(1, 1))
    with pytest.raises(Refusal):
        measure_run(Training("x", (), {}, {}, 0, 0), CostOptions(1, 1))


def test_a_run_that_logged_nothing_has_the_speed_of_its_last_start() -> None:
    starts: tuple[dict[str, object], ...] = (
        {**FACTS, "seconds": 1.0, "steps": 9},
        {**FACTS, "seconds": 10.0, "steps": 5, "waited": 2.0},
    )
    run = measure_run(Training("x", starts, {}, {}, 14, 100), CostOptions(1, 1))

    assert (run.step, run.waited, run.samples) == (2.0, 0.2, 3200)


parser: Any = pytest.importorskip("prometheus_client.parser", reason="pip install -e '.[test]'")


def parse(text: str) -> dict[tuple[str, str], float]:
    """Return the values by the names of metrics and of what is logged; each metric has a type, and what it is."""
    families = [*parser.text_string_to_metric_families(text)]
    assert all(family.type in ("gauge", "counter") and family.documentation for family in families)
    samples = [sample for family in families for sample in family.samples]
    return {(family.name.removeprefix(PREFIX), family.labels.get("name", "")): family.value for family in samples}


RUN = {"began": 1.0, "step": 10, "batch": 8, "time": 110.0, "seconds": 10.0, "steps": 10, "waited": 2.0}


def leave(place: Path, rows: Sequence[Mapping[str, object]]) -> Training:
    state = {"global_step": 20, "max_steps": 90, "log_history": rows, STARTS: [{**RUN, "steps": 90}, RUN]}
    (place / "_multinode").mkdir()
    (place / "_multinode/trainer_state.json").write_text(json.dumps(state))
    return read_training(str(place))


def test_a_training_is_told_by_its_last_values(tmp_path: Path) -> None:
    rows = [{"step": 15, "loss": 0.7}, {"step": 20, "loss": 0.5, "eval_loss": math.nan, "a": math.inf, "b": -math.inf}]

    metrics = parse(write_metrics(leave(tmp_path, rows)))

    assert math.isnan(metrics.pop(("logged", "eval_loss")))
    assert metrics == {
        ("step", ""): 20,
        ("steps", ""): 90,
        ("timestamp_seconds", ""): 110,
        ("samples_per_second", ""): 8,
        ("waiting_ratio", ""): 0.2,
        ("starts_total", ""): 2,
        ("logged", "loss"): 0.5,
        ("logged", "a"): math.inf,
        ("logged", "b"): -math.inf,
    }


@pytest.mark.parametrize(
    ("step", "rates"), [(10, (8, 0.2)), (11, (5, 0.3))], ids=["of the start before", "of this start"]
)
def test_speed_is_that_of_the_last_row_of_this_start(tmp_path: Path, step: int, rates: tuple[float, float]) -> None:
    metrics = parse(write_metrics(leave(tmp_path, [{"step": step, SPEED: 5, WAITING: 30}])))

    assert (metrics["samples_per_second", ""], metrics["waiting_ratio", ""]) == rates
    assert not {name for name, label in metrics if label}


def test_a_training_of_others_is_told_without_starts(tmp_path: Path) -> None:
    rows = [{"step": 2, "loss": 1, SPEED: 7}]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 3, "log_history": rows}))

    metrics = parse(write_metrics(read_training(str(tmp_path))))

    assert metrics == {("step", ""): 3, ("samples_per_second", ""): 7, ("logged", "loss"): 1}


def test_a_training_that_has_begun_is_at_step_0() -> None:
    metrics = parse(write_metrics(Training("x", ({"step": 0},), {}, {}, 0, 9)))

    assert metrics == {("step", ""): 0, ("steps", ""): 9, ("starts_total", ""): 1}


def test_nothing_is_told_of_no_training() -> None:
    assert write_metrics(None) == "" and write_metrics(Training("x", (), {}, {}, 0, 0)) == ""


@given(
    st.dictionaries(st.text(max_size=9), st.lists(st.tuples(st.integers(0, 9), st.floats()), max_size=2), max_size=4),
    st.integers(0, 2),
)
def test_whatever_is_logged_is_read(curves: dict[str, list[tuple[int, float]]], starts: int) -> None:
    metrics = parse(write_metrics(Training("x", ({},) * starts, curves, {}, 0, 0)))

    logged = {label for name, label in metrics if name == "logged"}
    assert logged == {name for name, points in curves.items() if points}


@pytest.mark.parametrize(("path", "found"), [("/metrics", True), ("/metrics?a=1", True), ("/", False)])
def test_prometheus_gets_the_training_that_has_written_last(tmp_path: Path, path: str, found: bool) -> None:
    for name in ("a", "b"):
        train(tmp_path / name)
    request = mock.Mock(path=path, wfile=io.BytesIO())

    write_answer(request, str(tmp_path))

    text = request.wfile.getvalue()
    headers = [("Content-Type", "text/plain; version=0.0.4; charset=utf-8"), ("Content-Length", str(len(text)))]
    answer = [mock.call.send_response(200), *(mock.call.send_header(*row) for row in headers), mock.call.end_headers()]
    assert request.mock_calls == (answer if found else [mock.call.send_error(404)])
    assert text.decode() == (write_metrics(read_training(f"{tmp_path}/b")) if found else "") and bool(text) is found


@pytest.mark.parametrize(("forks", "done"), [([5], ["close", (5, 0)]), ([0, 0], ["serve", 0]), ([0, 5], [0]), ([], [])])
def test_metrics_are_served_by_a_process_that_nobody_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], forks: list[int], done: list[object]
) -> None:
    """forks: what each fork returns, none where the port is taken."""
    happened, answers = list[object](), iter(forks)
    listener = SimpleNamespace(close=lambda: happened.append("close"))

    def serve(*given: object) -> None:
        assert given == (listener, "/out", os.getpid())
        happened.append("serve")

    listen = mock.Mock(return_value=listener, side_effect=None if forks else OSError(98, "Address already in use"))
    monkeypatch.setattr(metrics, "open_listener", listen)
    monkeypatch.setattr(metrics, "serve_metrics", serve)
    monkeypatch.setattr(os, "fork", lambda: next(answers))
    monkeypatch.setattr(os, "waitpid", lambda *given: happened.append(given))
    monkeypatch.setattr(os, "_exit", happened.append)

    serve_beside(9400, "/out")

    said = "" if forks else "multinode: no metrics: port 9400 cannot be used (Address already in use)\n"
    assert (happened, capsys.readouterr().err) == (done, said)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(9, "0 min 09 s"), (3599.4, "59 min 59 s"), (3599.6, "1 h 00 min"), (3600, "1 h 00 min"), (93_600, "26 h 00 min")],
)
def test_a_time_is_told_in_two_units(seconds: float, text: str) -> None:
    assert write_hours(seconds) == text
