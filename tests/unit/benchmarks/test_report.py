"""README.md and docs/benchmarks.md say what docs/benchmarks.json has, and the model on paper is near it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.figures import Figures
from benchmarks.report import pages, scaling, tables
from images.host.errors import UserFault
from multinode_image.report.scaling import BERT, DISTILBERT, SENT, Link, Work, estimate_share, estimate_step
from tests.support.figures import part, sizes
from tests.support.harness import ROOT

PARTS = figures.read(pages.FIGURES)
POINTS = scaling.points(PARTS)
PROGRESS = (ROOT / "multinode_image/hooks/trainer/progress.py").read_text()


def test_a_part_of_the_page_has_each_promise_with_its_limit() -> None:
    lines = pages.make("image", {"image": part(sizes(300_000_000))})

    assert any("| ≤ 340.0 MB | 300.0 MB | kept |" in line for line in lines)
    assert any("| ≤ 0.53 | 0.38 | kept |" in line for line in lines)
    assert pages.make("start", {}) == [pages.NOTHING]


@pytest.mark.parametrize("text", [None, "{}", "{cut", "[]", '{"store": {}}'])
def test_of_damaged_figures_nothing_is_made(text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pages, "FIGURES", tmp_path / "benchmarks.json")
    if text is not None:
        pages.FIGURES.write_text(text)

    with pytest.raises(UserFault) as caught:
        pages.maker("summary")()

    assert "benchmarks.json" in caught.value.value
    assert caught.value.remedy == "git checkout docs/benchmarks.json"


def test_what_was_missed_and_what_was_not_measured_is_said() -> None:
    measured = Figures(missing={"trainings in bfloat16": "no units"})
    measured.add("apart 12x384", 5.0)
    measured.add("together 12x384", 10.0)

    text = tables.whole("settings", part(measured))

    assert "| ≥ 0.95 | 0.50 | **missed** |" in text
    assert "| ≥ 2.00 | — | not measured |" in text
    assert "| | apart | together |\n|---|---|---|\n| 12 x 384 | 5.00 s | 10.0 s (0.50) |\n\nNot" in text
    assert "Not measured: trainings in bfloat16 (no units)." in text


def test_a_row_with_a_star_stands_for_all_that_was_measured() -> None:
    measured = Figures()
    for name in ("torch with bytecode", "own with bytecode", "torch without bytecode"):
        measured.add(f"layer {name}", 1e6, "bytes")

    text = tables.whole("image", part(measured))

    assert "| torch | 1.0 MB | 1.0 MB (1.00) |\n| own | — | 1.0 MB |" in text


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point.kind}-{point.gigabits}-{point.sent}")
def test_the_model_is_near_what_was_measured(point: scaling.Point) -> None:
    """A step ends when the slower rank's does, which a model of equal ranks does not know: it may be too short."""
    assert scaling.predict(point) == pytest.approx(point.seconds, rel=0.12 if point.kind == "float32" else 0.26)


def test_points_and_curves_come_from_the_figures_of_the_part() -> None:
    measured = Figures()
    for name, seconds in {
        "float32 apart unlimited": 3.0, "float32 default unlimited": 3.5, "float32 int4 unlimited": 9,
        "float32 apart 1gbit": 3.1, "float32 off 1gbit": 4.0, "bfloat16 off 1gbit": 9.0,
        "four bfloat16 apart 10gbit": 2.0, "four bfloat16 default 10gbit": 2.5,
    }.items():  # fmt: skip
        measured.add(name, seconds)

    assert scaling.points({"network": part(measured)}) == [
        ("float32", 2, 1, 3.1, 1, "off", 4.0), ("float32", 2, 1, 3.0, None, "float32", 3.5),
        ("four bfloat16", 4, 0.5, 2.0, 10, "bf16", 2.5),
    ]  # fmt: skip
    assert list(scaling.curves({"network": part(measured)})) == ["float32, off", "float32, float32"]
    assert scaling.write({}) == scaling.write_post()


@pytest.mark.parametrize(("nodes", "measured"), scaling.POST_SPEEDS.items())
def test_the_post_is_explained_by_one_flow_of_its_network(nodes: int, measured: float) -> None:
    assert scaling.speed(scaling.POST, "off", 5, nodes) == pytest.approx(measured, rel=0.05)


def test_one_rank_and_an_endless_network_cost_nothing_but_the_processor() -> None:
    work, link = Work(DISTILBERT, 2.91), Link(1e8, 1e-3)

    assert estimate_step(work, SENT["off"], link, 1) == pytest.approx(2.91)
    assert estimate_share(work._replace(cores=10_000), SENT["off"], Link(1e15), 2) == pytest.approx(0, abs=1e-3)


def test_a_slow_network_costs_what_it_sends_and_hides_at_most_a_backward_pass() -> None:
    work, link = Work(BERT, 3.0, cores=10_000), Link(1e6)
    sent = 109.5e6 * 4 / 1e6

    assert sent + 1 < estimate_step(work, SENT["off"], link, 2) < sent + 3


def test_messages_count_where_there_are_many_ranks() -> None:
    work = Work(DISTILBERT, 1.0, cores=10_000)
    slow, fast = (estimate_step(work, SENT["off"], Link(1e15, latency), 64) for latency in (1e-4, 0))

    assert slow - fast == pytest.approx(2 * 126e-4, rel=0.01)  # of the last layer, and of the embedding after it


def test_so_many_ranks_touch_so_many_rows_that_the_embedding_is_summed() -> None:
    rows, whole = (estimate_step(Work(DISTILBERT, 2.0), SENT[sent], Link(1e8), 64) for sent in ("float32", "off"))

    assert rows == pytest.approx(whole)


def test_what_the_line_of_progress_says_was_measured() -> None:
    """The advice of hooks/trainer/progress.py names a share, and seconds of a step before and after."""
    ((share, before, after),) = re.findall(r"where (\d+)% was waiting: ([\d.]+) s a step became ([\d.]+) s", PROGRESS)
    points = {f"{point.seconds:.2f}": point for point in POINTS}

    old, new = points[before], points[after]
    assert (old.sent, new.sent) == ("float32", "bf16")
    assert old.gigabits == new.gigabits and old.alone == new.alone
    assert round(100 * (1 - old.alone / old.seconds)) == int(share)


def test_the_line_of_progress_says_what_a_larger_batch_costs_as_the_page_does() -> None:
    settings = figures.of_json(PARTS["settings"])
    large, small = (round(100 * (settings.median(f"share {shape}") or 0)) for shape in ("12x384", "8x128"))

    assert f"{small}% for 8 x 128 words, {large}% for 12 x 384" in PROGRESS
