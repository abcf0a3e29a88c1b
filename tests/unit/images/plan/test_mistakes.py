"""What is wrong with a table -> sentences that name the place."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.foreign.typed import Mistakes
from images.plan import catalog, mistakes, schema
from tests.support.toml import tomllib

TEXT = catalog.TABLE.read_text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.dates() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=4,
)
BOTH = "bindings and ipex go with ccl, both of them"
GLOO = {"released": date(2022, 1, 1), "impi": "1", "openmp": "1"}  # a release without bindings
SOUND = tomllib.loads(TEXT)
PLACES = (
    ("torch", 0), ("torch", 0, "releases"), ("torch", 0, "releases", "1.10.0"), ("torch", 12, "python", 0),
    ("transformers", 3, "released"), ("transformers", 3, "libraries"), ("transformers", 3, "ccl"), ("base",),
    ("base", "intel"), ("tasks",), ("tasks", "translation"), ("source-only", 0, "requires"), ("default", "torch"),
    ("undeclared", 0), ("undeclared", 0, "requires"), ("undeclared", 0, "releases"),
)  # fmt: skip


def found(raw: Mapping[str, Any]) -> list[str]:
    try:
        return mistakes.between_sections(schema.parse(raw))
    except Mistakes as error:
        return mistakes.inside_sections(error.mistakes)


def test_a_sound_table_has_no_faults() -> None:
    assert found(SOUND) == []


@pytest.mark.parametrize("bad", [5, "x y", [], {}, [5], {"a": 5}])
def test_no_value_of_a_wrong_kind_is_taken_or_ends_in_a_traceback(bad: object) -> None:
    raw = tomllib.loads(TEXT)

    for section in raw:
        assert found({**raw, section: bad}) or bad == []
        for key in raw[section] if isinstance(raw[section], dict) and section != "tasks" else ():
            assert found({**raw, section: {**raw[section], key: bad}}) or bad == []


@given(st.sampled_from(PLACES), VALUES)
def test_any_value_in_any_place_is_sound_or_named(path: tuple[str | int, ...], value: object) -> None:
    raw = copy.deepcopy(SOUND)
    inner: Any = raw
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value

    assert all(str(path[0]) in fault or "in the table" in fault for fault in found(raw))


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("torch", 2), 7, "torch row 3 is not a table"),
        (("torch",), "x", "torch is not a list"),
        (("torch",), [], "torch is empty"),
        (("torch", 0, "python"), "3.9", "torch row 1: python = '3.9' is not a list"),
        (("torch", 0, "python", 1), 3.9, "torch row 1: python has 3.9, which is not a text"),
        (("torch", 0, "releases"), [], "torch row 1: releases = [] is not a table"),
        (("torch", 0, "python"), [], "torch row 1: python = [] is empty"),
        (("torch", 0, "releases"), {}, "torch row 1: releases = {} is empty"),
        (("torch", 0, "ccl_python"), [], "torch 1.10: backend is ccl, and ccl_python is missing"),
        (("torch", 0, "releases", "1.11.0"), GLOO, "torch 1.10: 1.11.0 does not belong to this line"),
        (
            ("torch", 0, "releases", "1.10.1"),
            GLOO,
            "torch 1.10.1: backend is ccl; bindings and ipex go with ccl, both of them",
        ),
        (("torch", 0, "backend"), "gloo", "torch 1.10: backend is gloo, and module is given"),
        (("torch", 0, "find_links"), None, "torch 1.10: backend is ccl; a ccl line has one of index, find_links"),
        (("tested", "torch"), ["9.9"], "tested: torch 9.9 is not in the table"),
        (("tested", "transformers", 0), "9.9", "tested: transformers 9.9 is not in the table"),
        (("transformers", 1, "released"), {}, "transformers 4.31: no release"),
        (("torch", 0, "releases", "1.10.0"), 5, "torch row 1: 1.10.0 = 5 is not a table"),
        (("torch", 0, "releases", "1.10.0", "ipx"), "1", "torch row 1, 1.10.0: unknown key 'ipx'"),
        (("torch", 0, "releases", "one"), {}, "torch row 1: 'one' is not a version"),
        (("transformers", 1, "libraries"), "2023-02-22", "transformers row 2: libraries = '2023-02-22' is not a date"),
        (("base", "debian"), [], "base.debian is not a table"),
        (("base", "debian", "glibc"), 2.36, "base.debian: glibc = 2.36 is not a text"),
        (("undeclared", 1, "releases"), [], "undeclared row 2: releases = [] is empty"),
        (("undeclared", 1, "releases", 0), "two", "undeclared row 2: releases has 'two', which is not a version"),
        (("undeclared", 0, "requires"), ["a b"], "undeclared row 1: requires has 'a b', which is not a requirement"),
        (("tasks",), {}, "tasks is empty"),
        (("tasks", "translation"), ["a b"], "tasks: translation has 'a b', which is not a requirement"),
        (("bases",), {}, "unknown section 'bases'"),
    ],
)
def test_a_fault_names_its_place(path: tuple[str | int, ...], value: object, fault: str) -> None:
    raw = copy.deepcopy(SOUND)
    inner: Any = raw
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value

    assert fault in found(raw)


def test_the_same_release_written_twice_in_two_ways_is_a_fault() -> None:
    raw = tomllib.loads(TEXT.replace('"4.46.1" = 2024', '"4.46" = 2024-10-24\n"4.46.1" = 2024', 1))

    assert "transformers 4.46.0 is in the table twice" in found(raw)
