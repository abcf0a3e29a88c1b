"""Tables that others typed -> dataclasses, or every fault with its place."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from images.foreign import typed
from images.foreign.typed import KEY, Mistake, Mistakes, Rule

DAY = datetime.date(2026, 1, 2)
Number = Annotated[str, Rule(int, "is not a number")]


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    day: datetime.date | None = None


@dataclass(frozen=True, kw_only=True)
class Page:
    rows: tuple[Row, ...]
    kind: Literal["a", "b"] = "a"
    counted: Mapping[Number, bool] = field(default_factory=dict, metadata={"key": "how-many"})
    few: Annotated[tuple[str, ...], Rule(lambda value: int(bool(value) or "x"), "is empty")] = ("x",)


@pytest.mark.parametrize(
    ("raw", "made"),
    [
        ({"rows": []}, Page(rows=())),
        ({"rows": [{"name": "x", "day": DAY}, {"name": "y"}]}, Page(rows=(Row(name="x", day=DAY), Row(name="y")))),
        ({"rows": [], "kind": "b", "how-many": {"1": True}}, Page(rows=(), kind="b", counted={"1": True})),
    ],
)
def test_a_table_becomes_its_dataclass(raw: Mapping[str, Any], made: Page) -> None:
    assert typed.read(Page, raw) == made


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ([], Mistake((), [], "is not a table")),
        ({"rows": {}}, Mistake(("rows",), {}, "is not a list")),
        ({"rows": [5]}, Mistake(("rows", 0), 5, "is not a table")),
        ({"rows": [{}]}, Mistake(("rows", 0, "name"), None, "is missing")),
        ({"rows": [], "counted": {}}, Mistake(("counted",), None, "is unknown")),
        ({"rows": [{"name": 1}]}, Mistake(("rows", 0, "name"), 1, "is not a text")),
        ({"rows": [{"name": "x", "day": "x"}]}, Mistake(("rows", 0, "day"), "x", "is not a date")),
        ({"rows": [], "kind": []}, Mistake(("kind",), [], "is not a or b")),
        ({"rows": [], "how-many": []}, Mistake(("how-many",), [], "is not a table")),
        ({"rows": [], "how-many": {"1": 1}}, Mistake(("how-many", "1"), 1, "is not true or false")),
        ({"rows": [], "how-many": {"x": True}}, Mistake(("how-many", "x", KEY), "x", "is not a number")),
    ],
)
def test_a_fault_has_its_place(raw: object, fault: Mistake) -> None:
    with pytest.raises(Mistakes) as caught:
        typed.read(Page, raw)

    assert caught.value.mistakes == [fault]


def test_a_time_is_no_day() -> None:
    with pytest.raises(Mistakes):
        typed.read(Row, {"name": "x", "day": datetime.datetime(2026, 1, 2)})


def test_every_fault_is_found_at_once_in_the_order_of_the_fields() -> None:
    with pytest.raises(Mistakes, match="3 mistakes") as caught:
        typed.read(Page, {"odd": 1, "kind": "c", "rows": [{"name": 1}]})

    assert [mistake.path for mistake in caught.value.mistakes] == [("rows", 0, "name"), ("kind",), ("odd",)]


def test_a_rule_is_asked_of_what_has_the_right_type_only() -> None:
    with pytest.raises(Mistakes) as caught:
        typed.read(Page, {"rows": [], "few": [1]})

    assert [mistake.said for mistake in caught.value.mistakes] == ["is not a text"]
