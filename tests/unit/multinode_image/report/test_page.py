"""The page of a report and its charts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from multinode_image.report.charts import COLUMNS, HEIGHT, WIDTH, Line, Range, draw, list_ticks, span, thin, write_short
from multinode_image.report.page import choose_axis, list_charts, name_trainings, write_page, write_seconds, write_time
from multinode_image.report.trainings import Point, Training


@pytest.mark.parametrize(
    ("values", "from_zero", "ends"),
    [
        ([2.0, 3.0], False, (2.0, 3.0)), ([2.0, 3.0], True, (0.0, 3.0)), ([0.1, 3.0], False, (0.0, 3.0)),
        ([-1.0, 3.0], True, (-1.0, 3.0)), ([5.0], False, (2.5, 7.5)), ([0.0, 0.0], True, (-1.0, 1.0)),
        ([], True, (-1.0, 1.0)), ([-1e308, 1e308], False, (-1e308, 1e308)), ([1e308], False, (5e307, 1.5e308)),
        ([5e-324, 0.0], False, (-1.0, 1.0)),
        ([1.0, 1.0 + 1e-15], False, (0.5, 1.5)),
    ],
)  # fmt: skip
def test_an_axis_has_room_for_all(values: list[float], from_zero: bool, ends: tuple[float, float]) -> None:
    assert span(values, from_zero=from_zero) == pytest.approx(ends)


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        ((0, 768), [0, 200, 400, 600]), ((0.9, 3.6), [1, 2, 3]), ((0, 2e-4), [0, 5e-5, 1e-4, 1.5e-4, 2e-4]),
        ((-1, 1), [-1, -0.5, 0, 0.5, 1]), ((0, 100), [0, 20, 40, 60, 80, 100]), ((-1e300, 1e300), None),
        ((0, 1e-280), None), ((1, 1 + 1e-11), None),
    ],
)  # fmt: skip
def test_ticks_are_round(axis: tuple[float, float], ticks: list[float] | None) -> None:
    places = list_ticks(Range(*axis))

    assert len(places) < 12 and (ticks is None or places == pytest.approx(ticks))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (1.0, "1"), (-3, "-3"), (0.41234, "0.4123"), (200, "200"), (12_500, "12.5k"), (22_713_216, "22.7M"),
        (1.5e9, "1.5G"), (2e-5, "2e-5"), (1.5e-4, "1.5e-4"), (-2e-5, "-2e-5"), (1e300, "1e300"), (9999.5, "1e+04"),
    ],
)  # fmt: skip
def test_numbers_are_short(value: float, text: str) -> None:
    assert write_short(value) == text


def test_a_curve_breaks_where_a_value_is_no_number() -> None:
    points = [(1, 1.0), (2, math.nan), (3, 2.0), (4, math.inf), (5, 3.0), (6, 2.0)]

    root = ElementTree.fromstring(draw([Line("<a>&", 0, points)], 'a "title"'))

    lines = [line.attrib["points"].split() for line in root.iter("polyline")]
    assert [len(line) for line in lines] == [1, 1, 2] and len([*root.iter("circle")]) == 4
    assert [float(number) for line in lines for place in line for number in place.split(",")] != []
    assert root.attrib["aria-label"] == 'a "title"'


@pytest.mark.parametrize("values", [[], [math.nan], [5.0], [1e308, -1e308], [5e-324, 0.0], [1.0] * 100_000])
def test_every_place_is_within_the_chart(values: list[float]) -> None:
    text = draw([Line("a", 0, [*enumerate(values)])], "t", from_zero=True)

    right = re.findall(r" c?x[12]?=\"([^\"]+)\"", text) + re.findall(r"([\d.-]+),[\d.-]", text)
    low = re.findall(r" c?y[12]?=\"([^\"]+)\"", text) + re.findall(r"[\d.-]+,([\d.-]+)", text)
    assert right and all(0 <= float(place) <= WIDTH for place in right) and len(text) < 50_000
    assert low and all(0 <= float(place) <= HEIGHT for place in low)


def test_a_long_curve_keeps_its_peaks() -> None:
    points = [(step, 1.0) for step in range(100_000)]
    points[777], points[99_000] = (777, 50.0), (99_000, -50.0)

    kept = thin(points)

    assert {(777, 50.0), (99_000, -50.0), points[0], points[-1]} <= {*kept} and len(kept) <= 2 * COLUMNS + 2
    assert kept == sorted(kept)


HOSTILE = "</title><script>alert(1)</script>\"'<img src=x onerror=y>&amp;\x1b[2J\u202e"
FACTS = {
    "script": "train.py", "model": "MiniLM", "weights": 22_713_216, "ranks": 2, "threads": "4", "batch": 64,
    "bf16": True, "torch": "2.13.0+cpu", "transformers": "5.23.0", "began": 1_790_000_000.0, "gradients": "bf16",
}  # fmt: skip


def training(directory: str = "/results/a", facts: Mapping[str, object] = FACTS, **curves: list[Point]) -> Training:
    measured = {"seconds": 20.0, "steps": 20, "waited": 5.0, "peak": 1.5 * 2**30}
    return Training(directory, ({"step": 0}, {"step": 10, **facts, **measured}), curves, {"eval_f1": 88.5}, 30, 40)


def cells(page: str) -> dict[str, list[str]]:
    rows = re.findall(r"<tr><th>(.*?)</th>(.*?)</tr>", page.partition("<tbody>")[2])
    return {name: re.findall(r"<td>(.*?)</td>", row) for name, row in rows}


def test_the_table_says_what_was_trained() -> None:
    page = write_page([training(loss=[(20, 2.0), (30, 1.0)], eval_loss=[(30, 1.5)], eval_runtime=[(30, 3.0)])])

    assert {name: value for name, [value] in cells(page).items()} == {
        "script": "train.py", "model": "MiniLM, 22.7M weights", "ranks": "2, with 4 threads each",
        "examples of a step": "64", "computes in": "bfloat16", "gradients": "bf16", "torch": "2.13.0",
        "transformers": "5.23.0", "took": "20 s",
        "steps": "30 of 40, started again at step 10", "samples per second": "64", "waiting": "25% of the time",
        "most memory of rank 0": "1.5 GB", "last loss": "1", "eval f1": "88.5", "eval loss": "1.5",
    }  # fmt: skip
    assert "<h1>train.py in /results/a</h1>" in page


def test_nothing_else_is_needed() -> None:
    page = write_page([training(loss=[(1, 2.0), (2, 1.0)])])

    assert "default-src 'none'" in page and not re.search(r"https?://|<script|<link|<img|@import|url\(", page)


class Tags(HTMLParser):
    """Counts what is a tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)


def test_no_text_of_a_training_is_markup() -> None:
    facts = {name: HOSTILE for name in FACTS}
    hostile = training(f"/{HOSTILE}", facts, **{HOSTILE: [(1, 2.0), (2, 1.0)], f"eval_{HOSTILE}": [(1, 1.0)]})
    plain = training(x=[(1, 2.0), (2, 1.0)], eval_x=[(1, 1.0)])

    for many in ([hostile], [hostile, hostile]):
        page = write_page(many)
        assert Tags(page).names == Tags(write_page([plain] * len(many))).names
        assert "\x1b" not in page and "\u202e" not in page and "alert(1)" in page


@pytest.mark.parametrize(
    ("trainings", "metrics"),
    [
        ([training(loss=[(1, 1.0)])], []),
        ([training(loss=[(1, 1.0), (2, 1.0)], eval_loss=[(2, 1.0)])], [("loss", 2)]),
        ([training(eval_f1=[(1, 1.0), (2, 1.0)])], [("f1", 1)]),
        ([training(a=[(1, 1.0), (2, 1.0)], waiting=[(1, 1.0), (2, 1.0)], loss=[(1, 1.0), (2, 1.0)])],
         [("loss", 1), ("waiting", 1), ("a", 1)]),
        ([training(loss=[(1, 1.0), (2, 1.0)]), training(loss=[(1, 1.0)]), training()], [("loss", 2)]),
    ],
)  # fmt: skip
def test_a_metric_has_a_chart_with_all_its_lines(trainings: list[Training], metrics: list[tuple[str, int]]) -> None:
    charts = list_charts(trainings, ["a", "b", "c"], [1, 1, 1])

    assert [(metric, len(lines)) for metric, lines in charts] == metrics


def test_a_loss_that_is_no_number_is_told() -> None:
    page = write_page([training(loss=[(1, 2.0), (2, math.nan), (3, math.inf)])])

    assert "NaN or infinite at 2 of 3 points, from step 2" in page


def test_a_line_is_named_with_its_last_and_its_outermost_values() -> None:
    page = write_page([training(loss=[(1, 3.0), (2, 0.5), (3, math.nan), (4, 1.5)], eval_loss=[(4, math.nan)])])

    keys = re.findall(r"</svg>([^<]*)</span>", page)
    assert keys == ["training: 1.5 at the end, 0.5 to 3", "evaluation"]


def test_where_nothing_was_logged_the_page_says_what_to_type() -> None:
    assert "--logging_steps 10" in write_page([training()])


@pytest.mark.parametrize(
    ("batches", "axis"),
    [
        ((8,), ("step", [1])), ((8, 8), ("step", [1, 1])), ((8, 16), ("examples", [8, 16])),
        ((8, None), ("step", [1, 1])), ((8, "16"), ("step", [1, 1])), ((8, 10**40), ("step", [1, 1])),
    ],
)  # fmt: skip
def test_steps_of_another_size_are_compared_by_their_examples(batches: tuple[object, ...], axis: object) -> None:
    assert choose_axis([training(facts={"batch": batch}) for batch in batches]) == axis


@pytest.mark.parametrize(
    ("places", "names"),
    [
        (["/w/out"], ["/w/out"]), (["/w/a", "/w/b"], ["a", "b"]), (["/w", "/w/b"], [".", "b"]),
        (["a", "/w/b"], ["a", "/w/b"]), (["a/x", "a/y"], ["x", "y"]),
    ],
)  # fmt: skip
def test_trainings_are_called_by_what_differs(places: list[str], names: list[str]) -> None:
    assert name_trainings([training(place) for place in places]) == names


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.4, "4 s"), (61, "1 min 1 s"), (7322, "2 h 2 min"), (-1, ""), (math.inf, "")]
)
def test_durations(seconds: float, text: str) -> None:
    assert write_seconds(seconds) == text


@pytest.mark.parametrize("value", [None, True, "x", math.nan, math.inf, -1, 10**400, [1]])
def test_a_time_that_is_none_is_not_told(value: object) -> None:
    assert write_time(value) == ""
