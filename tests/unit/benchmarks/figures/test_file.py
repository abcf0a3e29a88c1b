"""The file with the figures of all parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.figures import file
from images.host.errors import UserFault


def test_a_part_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    for name, runs in (("store", 50), ("build", 1), ("build", 3)):
        file.put(path, name, {"runs": runs})

    found = file.read(path)

    assert found == {"build": {"runs": 3}, "store": {"runs": 50}}
    assert list(json.loads(path.read_text())) == ["build", "store"], "the order is that of the page"


@pytest.mark.parametrize("text", ["[]", '{"version": 1}', "no JSON"])
def test_another_file_is_not_overwritten(text: str, tmp_path: Path) -> None:
    path = tmp_path / "package.json"
    path.write_text(text)

    with pytest.raises(UserFault):
        file.put(path, "build", {})

    assert path.read_text() == text
