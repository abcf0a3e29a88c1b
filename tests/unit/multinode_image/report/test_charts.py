"""Charts: axes with round numbers, curves within them, and gaps where a value is no number."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from multinode_image.report.charts import COLUMNS, HEIGHT, WIDTH, Line, Range, draw, list_ticks, span, thin, write_short


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
    found = list_ticks(Range(*axis))

    assert len(found) < 12 and (ticks is None or found == pytest.approx(ticks))


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

    lines = [each.attrib["points"].split() for each in root.iter("polyline")]
    assert [len(each) for each in lines] == [1, 1, 2] and len([*root.iter("circle")]) == 4
    assert [float(number) for each in lines for place in each for number in place.split(",")] != []
    assert root.attrib["aria-label"] == 'a "title"'


@pytest.mark.parametrize("values", [[], [math.nan], [5.0], [1e308, -1e308], [5e-324, 0.0], [1.0] * 100_000])
def test_every_place_is_within_the_chart(values: list[float]) -> None:
    text = draw([Line("a", 0, [*enumerate(values)])], "t", from_zero=True)

    right = re.findall(r" c?x[12]?=\"([^\"]+)\"", text) + re.findall(r"([\d.-]+),[\d.-]", text)
    low = re.findall(r" c?y[12]?=\"([^\"]+)\"", text) + re.findall(r"[\d.-]+,([\d.-]+)", text)
    assert right and all(0 <= float(each) <= WIDTH for each in right) and len(text) < 50_000
    assert low and all(0 <= float(each) <= HEIGHT for each in low)


def test_a_long_curve_keeps_its_peaks() -> None:
    points = [(step, 1.0) for step in range(100_000)]
    points[777], points[99_000] = (777, 50.0), (99_000, -50.0)

    kept = thin(points)

    assert {(777, 50.0), (99_000, -50.0), points[0], points[-1]} <= {*kept} and len(kept) <= 2 * COLUMNS + 2
    assert kept == sorted(kept)
