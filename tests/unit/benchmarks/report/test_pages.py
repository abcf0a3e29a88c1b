"""README.md and docs/benchmarks.md say what docs/benchmarks.json has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures import file
from benchmarks.report import pages
from images.host.errors import UserFault
from tests.support.figures import part, sizes

MARKED = "before\n<!-- figures of {0} -->\nold\n<!-- end -->\nafter\n"


def image(size: int) -> dict[str, Any]:
    """Return a part `image` with the size of ours."""
    return part(sizes(size))


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_the_pages_are_as_the_figures_make_them(page: Path) -> None:
    figures = file.read(pages.FIGURES)

    assert pages.fill(page, pages.PAGES[page], figures) == page.read_text(), "python -m benchmarks write writes it anew"


def test_a_section_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(MARKED.format("image"))

    text = pages.fill(tmp_path / "page.md", ["image"], {"image": image(300_000_000)})

    assert text.startswith("before\n<!-- figures of image -->\n") and text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "| ≤ 340.0 MB | 300.0 MB | kept |" in text
    assert "| ≤ 0.53 | 0.38 | kept |" in text


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Write to pages of the test alone; the figures are not there yet."""
    for name in ("PAGE", "README"):
        (tmp_path / f"{name}.md").write_text(MARKED.format("image"))
    monkeypatch.setattr(pages, "PAGES", {tmp_path / f"{name}.md": ["image"] for name in ("PAGE", "README")})
    monkeypatch.setattr(pages, "FIGURES", tmp_path / "benchmarks.json")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "benchmarks.json"),
        ("{}", "benchmarks.json"),
        ("{cut", "benchmarks.json"),
        ("[]", "benchmarks.json"),
        ('{"build": {}}', "build.day"),
        ('{"build": null}', "build"),
        (json.dumps({"image": image(1)}).replace("[1]", '["1"]'), "image.figures.ours with bytecode.values.0"),
    ],
)
def test_damaged_figures_leave_the_pages_as_they_are(text: str | None, said: str, places: Path) -> None:
    if text is not None:
        (places / "benchmarks.json").write_text(text)

    with pytest.raises(UserFault) as caught:
        pages.write()

    assert caught.value.value.endswith(said) or f"{said}: " in caught.value.value
    assert caught.value.remedy == "git checkout docs/benchmarks.json"
    assert {(places / name).read_text() for name in ("PAGE.md", "README.md")} == {MARKED.format("image")}


@pytest.mark.parametrize("name", ["PAGE.md", "README.md"])
def test_a_page_without_markers_leaves_both_as_they_are(places: Path, name: str) -> None:
    (places / "benchmarks.json").write_text(json.dumps({"image": image(300_000_000)}))
    (places / name).write_text("no markers")
    before = {each: (places / each).read_text() for each in ("PAGE.md", "README.md")}

    with pytest.raises(SystemExit, match=f"{name}: figures of image"):
        pages.write()

    assert {each: (places / each).read_text() for each in before} == before
