"""The nearest thing that exists."""

from __future__ import annotations

import pytest
from packaging.version import Version

from images.plan.nearest import close_match, nearest_version

KNOWN = [Version(text) for text in ("4.57.1", "4.57.6", "5.0.0", "5.10.2", "5.10.4", "5.23.0")]


@pytest.mark.parametrize(
    ("wanted", "nearest"),
    [("4.57.9", "4.57.6"), ("5.10.3", "5.10.2"), ("6.0", "5.23.0"), ("4.0", "4.57.1"), ("5.23.0", "5.23.0")],
)
def test_the_nearest_release_is_the_newest_that_is_not_later(wanted: str, nearest: str) -> None:
    assert str(nearest_version(Version(wanted), KNOWN)) == nearest


def test_a_misspelt_word_has_a_close_match() -> None:
    assert close_match("question-anwsering", ["question-answering", "translation"]) == "question-answering"
    assert close_match("zzz", ["question-answering"]) is None
