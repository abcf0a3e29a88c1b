"""Which releases are built into one store, and what is counted there."""

from __future__ import annotations

import os
from pathlib import Path

from packaging.version import Version

from benchmarks.figures.measured import Figures
from benchmarks.store import measure
from images.plan import catalog


def test_releases_are_the_newest_that_can_be_built() -> None:
    table = catalog.load()
    found = measure.releases(table, 50)

    assert len(set(found)) == 50
    assert found == sorted(found, key=Version, reverse=True)
    assert "4.46.0" not in measure.releases(table, 120), "it is yanked"
    assert "4.52.4" not in measure.releases(table, 120), "it wants an older torch"


def test_a_file_with_two_names_is_counted_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 5000)
    once = measure.disk(tmp_path)

    os.link(tmp_path / "one", tmp_path / "two")

    assert 5000 <= once == measure.disk(tmp_path)


def test_marks_are_kept_as_far_as_they_were_reached() -> None:
    figures = Figures()

    measure.keep(figures, [[number, 100 * number, 2.0] for number in range(1, 13)])

    assert figures.median("disk of 10") == 1000
    assert figures.median("seconds of 10") == 20
    assert figures.median("disk of 50") is None


def test_layers_of_another_build_are_not_new() -> None:
    assert measure.changed_bytes([{"size": 5, "reused": True}, {"size": 7, "reused": False}]) == 7
