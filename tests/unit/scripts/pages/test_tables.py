"""The tables of pages are as their data say."""

from __future__ import annotations

from images.plan import catalog
from scripts.pages import tables


def test_what_the_tests_train_stands_alone_and_in_bold() -> None:
    bold = [line for line in tables.versions() if line.startswith("| **")]

    assert [line.split("|")[1].strip() for line in bold] == [f"**{one}**" for one in catalog.load().tested_torch]
