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

MARKED = "before\n<!-- figures of summary -->\nold\n<!-- end -->\nafter\n"


def image(size: int) -> dict[str, Any]:
    """Return a part `image` with the size of ours."""
    return part(sizes(size))


def test_the_readme_is_as_the_figures_make_it() -> None:
    text = pages.README.read_text()

    assert pages.fill(text, file.read(pages.FIGURES)) == text, "python -m benchmarks write writes it anew"


def test_a_part_of_the_page_has_each_promise_with_its_limit() -> None:
    lines = pages.make("image", {"image": image(300_000_000)})

    assert any("| ≤ 340.0 MB | 300.0 MB | kept |" in line for line in lines)
    assert any("| ≤ 0.53 | 0.38 | kept |" in line for line in lines)
    assert pages.make("store", {}) == [pages.NOTHING]


@pytest.fixture
def readme(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Write to a page of the test alone; the figures are not there yet."""
    (tmp_path / "README.md").write_text(MARKED)
    monkeypatch.setattr(pages, "README", tmp_path / "README.md")
    monkeypatch.setattr(pages, "FIGURES", tmp_path / "benchmarks.json")
    return tmp_path / "README.md"


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
def test_damaged_figures_leave_the_readme_as_it_is(text: str | None, said: str, readme: Path) -> None:
    if text is not None:
        pages.FIGURES.write_text(text)

    with pytest.raises(UserFault) as caught:
        pages.write()

    assert caught.value.value.endswith(said) or f"{said}: " in caught.value.value
    assert caught.value.remedy == "git checkout docs/benchmarks.json"
    assert readme.read_text() == MARKED


def test_a_readme_without_markers_stays_as_it_is(readme: Path) -> None:
    pages.FIGURES.write_text(json.dumps({"image": image(300_000_000)}))
    readme.write_text("no markers")

    with pytest.raises(SystemExit, match=r"README\.md: figures of summary"):
        pages.write()

    assert readme.read_text() == "no markers"
