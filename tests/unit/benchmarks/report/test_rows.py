"""The tables of the pages are whole: every part has some, and their rows have a cell for each column."""

from __future__ import annotations

from benchmarks.figures.file import PARTS
from benchmarks.report.rows import LIMITS, TABLES
from benchmarks.train.scenes import SCENES

ALL = [table for tables in TABLES.values() for table in tables]


def test_every_part_has_tables() -> None:
    assert list(TABLES) == list(PARTS)
    assert all(TABLES.values())


def test_a_row_has_a_cell_for_each_column() -> None:
    wrong = [
        f"{table.title}: {row.title}" for table in ALL for row in table.rows if len(row.cells) != len(table.columns)
    ]
    assert wrong == []


def test_no_title_is_there_twice() -> None:
    assert len({table.title for table in ALL}) == len(ALL)
    assert [table.title for table in ALL if len({row.title for row in table.rows}) != len(table.rows)] == []


def test_every_scene_of_the_trainings_has_a_title() -> None:
    assert list(LIMITS) == [scene.name for scene in SCENES]
