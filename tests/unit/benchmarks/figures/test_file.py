"""The file with the figures of all parts."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from benchmarks.figures import file
from images.host.errors import UserFault, WorldFault


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


@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_a_full_disk_leaves_the_figures_as_they_were(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figures.json"
    file.put(path, "build", {"runs": 1})
    before = path.read_text()

    def refuse(place: Path, *_: object) -> None:
        place.open("w").close()  # what a full disk leaves: a file without its content
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, step, refuse)
    with pytest.raises(WorldFault) as caught:
        file.put(path, "store", {"runs": 50})

    assert caught.value.value == f"{path} (No space left on device)" and caught.value.remedy
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
