"""What Prometheus reads of a training, by its own parser."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.report.metrics import PREFIX, write_metrics
from multinode_image.report.trainings import Attempt, Training, read_training

parser: Any = pytest.importorskip("prometheus_client.parser", reason="pip install -e '.[test]'")


def parse(text: str) -> dict[tuple[str, str], float]:
    """Return the values by the names of metrics and of what is logged; each metric has a type, and what it is."""
    families = [*parser.text_string_to_metric_families(text)]
    assert all(each.type in ("gauge", "counter") and each.documentation for each in families)
    samples = [sample for each in families for sample in each.samples]
    return {(each.name.removeprefix(PREFIX), each.labels.get("name", "")): each.value for each in samples}


def leave(place: Path, rows: Sequence[Mapping[str, object]]) -> Training:
    (place / "_multinode").mkdir()
    (place / "_multinode/history.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return read_training(str(place))


def test_a_training_is_told_by_its_last_values(tmp_path: Path) -> None:
    training = leave(
        tmp_path,
        [
            {"began": 1.0, "step": 0, "batch": 8, "steps": 90},
            {"step": 10, "time": 100.0, "waited": 0.0},
            {"step": 20, "time": 110.0, "waited": 2.0, "peak": 5},
            {"step": 20, "time": 110.0, "logged": {"loss": 0.5, "eval_loss": math.nan}},
            {"step": 15, "time": 105.0, "logged": {"loss": 0.7}},
        ],
    )

    found = parse(write_metrics(training))

    assert math.isnan(found.pop(("logged", "eval_loss")))
    assert found == {
        ("step", ""): 20,
        ("steps", ""): 90,
        ("timestamp_seconds", ""): 110,
        ("samples_per_second", ""): 8,
        ("waiting_ratio", ""): 0.2,
        ("starts_total", ""): 1,
        ("logged", "loss"): 0.5,
    }


def test_nothing_is_told_of_no_training() -> None:
    assert write_metrics(None) == "" and write_metrics(Training("x", (), {}, {}, 0, None, ())) == ""


@given(
    st.dictionaries(st.text(max_size=9), st.lists(st.tuples(st.integers(0, 9), st.floats()), max_size=2), max_size=4),
    st.integers(0, 2),
)
def test_whatever_is_logged_is_read(curves: dict[str, list[tuple[int, float]]], starts: int) -> None:
    attempts = tuple(Attempt(0, {}) for _ in range(starts))

    found = parse(write_metrics(Training("x", attempts, curves, {}, 0, None, ())))

    logged = {label for name, label in found if name == "logged"}
    assert logged == {name for name, points in curves.items() if points}
