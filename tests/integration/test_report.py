"""The page of `report` in a browser without a network: its curves are seen, at the width of a screen and of a phone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multinode_image.report.page import write_page
from multinode_image.report.trainings import read_training
from scripts.pages.picture import NAMES, TRAININGS, draw_trainings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

CURVES = (
    "loss",
    "samples per second, all ranks",
    "rank 0 waits for gradients, % of the time",
    "learning rate",
    "grad norm",
)


@contextmanager
def opened(browser: Browser, place: Path, width: int, scheme: str = "light") -> Iterator[Page]:
    """Show a file; what is said on the console, or asked of anybody, fails the test."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url))
    page.goto(place.as_uri())
    yield page
    context.close()
    assert said == [place.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("names", [NAMES[1:], NAMES])
def test_curves_are_seen(browser: Browser, tmp_path: Path, names: tuple[str, ...], width: int, scheme: str) -> None:
    place = tmp_path / "report.html"
    place.write_text(write_page([read_training(str(TRAININGS / name)) for name in names]))

    with opened(browser, place, width, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("figure h2").all_inner_texts() == [*CURVES]
        for figure in page.locator("figure").all():
            chart, lines = figure.locator("svg.chart"), figure.locator("svg.chart polyline.line")
            outer = chart.bounding_box()
            assert outer is not None and outer["width"] > 250
            assert 1 <= lines.count() <= 2 * len(names)
            assert all(box["width"] > outer["width"] / 4 for curve in lines.all() if (box := curve.bounding_box()))
            colours = lines.evaluate_all("all => all.map(each => getComputedStyle(each).stroke)")
            assert "none" not in colours and len({*colours}) == min(len(names), lines.count())
        sizes = page.locator("svg.chart text").evaluate_all(
            "all => all.map(each => each.getBoundingClientRect().height)"
        )
        assert min(sizes) > 8


def test_the_picture_of_the_pages_is_drawn(browser: Browser, tmp_path: Path) -> None:
    place = tmp_path / "picture.svg"
    place.write_text(draw_trainings())

    with opened(browser, place, 1000) as page:
        assert page.locator("polyline.line").count() >= 7
