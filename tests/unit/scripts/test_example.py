"""The texts of the first training, and its model."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from images.debian.archive import PARAGRAPH, Paragraph
from scripts.example import __main__ as example
from scripts.example.texts import SECTIONS, TESTED, choose_texts, write_texts


def test_others_may_read_the_example_whatever_this_user_gives_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bring(place: Path, *_: object) -> None:
        (place / "model").mkdir()
        (place / "model" / "config.json").write_text("{}")

    monkeypatch.setattr(example, "_bring_model", bring)
    monkeypatch.setattr(example, "_bring_texts", lambda *_: {})
    before = os.umask(0o077)
    try:
        assert example.main([str(tmp_path / "example")]) == 0
    finally:
        os.umask(before)

    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "example").rglob("*")}
    assert modes == {"model": 0o755, "config.json": 0o644, "train.py": 0o644}


INDEX = b"""
Package: bzip3
Section: utils
Description: better and stronger spiritual successor

Package: libbzip3-dev
Source: bzip3 (1.2.2)
Section: libdevel
Description: the same source, a second time

Package: perl-doc
Section: perl
Description: a section whose name is in the text

Package: tuxmath-data
Source: tuxmath
Section: games
Description: math game (data files)
"""


def paragraphs(text: bytes) -> list[Paragraph]:
    return [Paragraph("s", text, match.start(), match.end()) for match in PARAGRAPH.finditer(text)]


def test_a_source_is_taken_once_and_only_in_a_section_of_a_subject() -> None:
    assert sorted(choose_texts(paragraphs(INDEX)), key=lambda row: row["section"]) == [
        {"text": "math game (data files)", "section": "games"},
        {"text": "better and stronger spiritual successor", "section": "utils"},
    ]


def test_the_order_is_the_same_every_time_and_not_that_of_the_index() -> None:
    index = b"\n" + b"\n".join(
        b"Package: p%d\nSection: %s\nDescription: text %d\n" % (number, SECTIONS[number % 20].encode(), number)
        for number in range(200)
    )
    rows = choose_texts(paragraphs(index))

    assert rows == choose_texts(paragraphs(index))
    assert len(rows) == 200
    assert [row["text"] for row in rows] != [f"text {number}" for number in range(200)]


def test_no_text_is_in_both_files(tmp_path: Path) -> None:
    rows = [{"text": str(number), "section": "net"} for number in range(TESTED + 7)]

    counts = write_texts(rows, tmp_path)

    assert counts == {"test.json": TESTED, "train.json": 7}
    both = [json.loads(line) for name in counts for line in (tmp_path / name).read_text().splitlines()]
    assert both == rows
