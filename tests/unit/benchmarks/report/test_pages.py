"""README.md and docs/benchmarks.md say what docs/benchmarks.json has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures import file
from benchmarks.report import pages

MACHINE = {
    "cores": 2, "cpu": "AMD EPYC", "units": [], "kernel": "6.1", "memory_gb": 8, "engine": "Docker 20.10", "load": 0.0,
}  # fmt: skip
MARKED = "before\n<!-- figures of {0} -->\nold\n<!-- end of figures -->\nafter\n"


def image(size: int) -> dict[str, Any]:
    """Return a part `image` with the size of ours, against a Dockerfile's of 800 MB."""
    figures = {"ours with bytecode": size, "expert without bytecode": 800_000_000}
    values = {name: {"unit": "bytes", "values": [each]} for name, each in figures.items()}
    return {
        "day": "2026-11-22",
        "runs": 1,
        "minutes": 5.0,
        "machine": MACHINE,
        "figures": values,
        "missing": {},
        "facts": {},
    }


@pytest.mark.parametrize("page", [pages.PAGE, pages.README], ids=lambda page: page.name)
def test_the_pages_are_as_the_figures_make_them(page: Path) -> None:
    text = page.read_text()

    assert "<!-- figures of " in text
    assert pages.fill(text, file.read(pages.FIGURES)) == text, "python -m benchmarks write writes it anew"


def test_a_section_is_replaced_and_the_rest_stays() -> None:
    text = pages.fill(MARKED.format("image"), {"image": image(300_000_000)})

    assert text.startswith("before\n<!-- figures of image -->\n") and text.endswith("<!-- end of figures -->\nafter\n")
    assert "old" not in text
    assert "| ≤ 320.0 MB | 300.0 MB | kept |" in text
    assert "| ≤ 0.50 | 0.38 | kept |" in text


def test_the_summary_states_what_missed() -> None:
    kept, missed = (pages.summary({"image": image(size)}) for size in (300_000_000, 412_500_000))

    assert kept.endswith("Missed: nothing.")
    assert "the image has 412.5 MB compressed" in missed
    assert "(412.5 MB, limit ≤ 320.0 MB)" in missed.partition("Missed: ")[2]


def test_without_figures_the_pages_say_so() -> None:
    assert pages.fill(MARKED.format("summary"), {}) == MARKED.format("summary").replace("old", pages.NOTHING)
