"""README.md and docs/benchmarks.md say what docs/benchmarks.json has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import pages
from images.host.errors import UserFault
from tests.support.figures import part, sizes


def image(size: int) -> dict[str, Any]:
    """Return a part `image` with the size of ours."""
    return part(sizes(size))


def test_a_part_of_the_page_has_each_promise_with_its_limit() -> None:
    lines = pages.make("image", {"image": image(300_000_000)})

    assert any("| ≤ 340.0 MB | 300.0 MB | kept |" in line for line in lines)
    assert any("| ≤ 0.53 | 0.38 | kept |" in line for line in lines)
    assert pages.make("store", {}) == [pages.NOTHING]


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
def test_of_damaged_figures_nothing_is_made(
    text: str | None, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pages, "FIGURES", tmp_path / "benchmarks.json")
    if text is not None:
        pages.FIGURES.write_text(text)

    with pytest.raises(UserFault) as caught:
        pages.maker("summary")()

    assert caught.value.value.endswith(said) or f"{said}: " in caught.value.value
    assert caught.value.remedy == "git checkout docs/benchmarks.json"
