"""The sections of versions.toml as typed values."""

from __future__ import annotations

import datetime

import pytest

from images.foreign.typed import Mistakes
from images.plan import catalog, schema
from tests.support.toml import tomllib

SOUND = tomllib.loads(catalog.TABLE.read_text())


def test_values_have_their_types() -> None:
    made = schema.parse(SOUND)
    line = next(line for line in made.torch if line.line == "2.4")

    assert line.releases["2.4.0"].released == datetime.date(2024, 7, 24)
    assert (line.backend, line.releases["2.4.0"].bindings, line.cpu_suffix) == ("ccl", "2.4.0", False)
    assert {row.name for row in made.source_only} == {"rouge-score", "seqeval"}  # the key source-only
    assert isinstance(made.tasks["translation"], tuple)


def test_what_a_line_does_not_say_has_a_default() -> None:
    line = next(line for line in schema.parse(SOUND).torch if line.line == "2.13")

    assert (line.module, line.ccl_python, line.index, line.find_links) == (None, (), None, None)


def test_the_pins_of_what_is_undeclared_are_requirements() -> None:
    row = schema.Undeclared(name="a_b", releases=("1.0", "1.1+cpu"), requires=("psutil",), source="x")

    assert row.pins == {"a_b==1.0", "a_b==1.1+cpu"}


def test_everything_that_is_wrong_is_raised_at_once() -> None:
    wrong = {**SOUND, "default": {"torch": "one", "transformers": 5}, "tested": []}

    with pytest.raises(Mistakes) as caught:
        schema.parse(wrong)

    assert sorted(tuple(mistake[0]) for mistake in caught.value.mistakes) == [
        ("default", "torch"), ("default", "transformers"), ("tested",),
    ]  # fmt: skip
