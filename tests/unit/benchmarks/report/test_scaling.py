"""The model on paper against what was measured, here and in the guide's post."""

from __future__ import annotations

import re

import pytest

from benchmarks.figures import file
from benchmarks.figures.measured import Figures
from benchmarks.report import pages, scaling
from multinode_image.programs.scaling import BERT, DISTILBERT, SENT, Link, Work, estimate_share, estimate_step
from tests.support.figures import part
from tests.support.harness import ROOT

PARTS = file.read(pages.FIGURES)
POINTS = scaling.points(PARTS)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point.kind}-{point.gigabits}-{point.sent}")
def test_the_model_is_near_what_was_measured(point: scaling.Point) -> None:
    """A step ends when the slower rank's does, which a model of equal ranks does not know: it may be too short."""
    assert scaling.predict(point) == pytest.approx(point.seconds, rel=0.12 if point.kind == "float32" else 0.26)


def test_points_and_curves_come_from_the_figures_of_the_part() -> None:
    figures = Figures()
    for name, seconds in {
        "float32 apart unlimited": 3.0, "float32 default unlimited": 3.5, "float32 int4 unlimited": 9,
        "float32 apart 1gbit": 3.1, "float32 off 1gbit": 4.0, "bfloat16 off 1gbit": 9.0,
        "four bfloat16 apart 10gbit": 2.0, "four bfloat16 default 10gbit": 2.5,
    }.items():  # fmt: skip
        figures.add(name, seconds)

    assert scaling.points({"network": part(figures)}) == [
        ("float32", 2, 1, 3.1, 1, "off", 4.0), ("float32", 2, 1, 3.0, None, "float32", 3.5),
        ("four bfloat16", 4, 0.5, 2.0, 10, "bf16", 2.5),
    ]  # fmt: skip
    assert list(scaling.curves({"network": part(figures)})) == ["float32, off", "float32, float32"]
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
    text = (ROOT / "multinode_image/hooks/trainer/progress.py").read_text()
    ((share, before, after),) = re.findall(r"where (\d+)% was waiting: ([\d.]+) s a step became ([\d.]+) s", text)

    found = {f"{each.seconds:.2f}": each for each in POINTS}
    if not found:
        pytest.skip("the part `network` is not measured")
    old, new = found[before], found[after]
    assert (old.sent, new.sent) == ("float32", "bf16")
    assert old.gigabits == new.gigabits and old.alone == new.alone
    assert round(100 * (1 - old.alone / old.seconds)) == int(share)


def test_the_line_of_progress_says_what_a_larger_batch_costs_as_the_page_does() -> None:
    page = "\n".join(pages.maker("settings")())
    text = (ROOT / "multinode_image/hooks/trainer/progress.py").read_text()
    large, small = (
        round(100 * float(share))
        for share in re.findall(r"\| (?:share of a step that .*, 12 x 384|that share, 8 x 128) \| ([\d.]+) \|", page)
    )

    assert f"{small}% for 8 x 128 words, {large}% for 12 x 384" in text
