"""The forms of launchers that are said to be run have tests that run them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from scripts.pages.tables import read_cases

CHECKED = sorted({case["checked"] for case in read_cases() if "checked" in case})


def test_a_form_is_a_world_or_a_refusal() -> None:
    assert [case["form"] for case in read_cases() if bool(case.get("world")) == bool(case.get("refused"))] == []


def ids(mark: pytest.Mark) -> Iterator[str]:
    """List the names that a `parametrize` gives its rows, as far as they are written down."""
    given = mark.kwargs.get("ids")
    for place, row in enumerate(mark.args[1]):
        value = row.values[0] if isinstance(row, ParameterSet) else row
        if isinstance(row, ParameterSet) and row.id is not None:
            yield str(row.id)
        elif given is not None:
            yield given(value) if callable(given) else given[place]
        else:
            yield str(value)


@pytest.mark.parametrize("name", CHECKED)
def test_a_form_that_was_run_names_a_test(name: str) -> None:
    file, _, test = name.removesuffix("]").partition("::")
    function, _, row = test.partition("[")
    module = importlib.import_module(f"tests.{file.removesuffix('.py').replace('/', '.')}")
    marks = [mark for mark in getattr(getattr(module, function), "pytestmark", []) if mark.name == "parametrize"]

    assert not row or row in [each for mark in marks for each in ids(mark)]
