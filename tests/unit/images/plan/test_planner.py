"""Requests -> plans: what goes in, as of which days, and what is said with it."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace

import pytest

from images.host.errors import UserFault
from images.plan import catalog, planner
from images.plan.plan import Request
from images.platforms import PLATFORMS

TABLE = catalog.load()


def test_gloo_in_place_of_ccl_is_said_with_its_reason_unless_it_was_asked_for() -> None:
    request = Request(torch="2.4.0", transformers="5.1.0")

    fallen = planner.make_plan(request, TABLE)
    chosen = planner.make_plan(replace(request, backend="gloo"), TABLE)

    start = "gloo instead of oneCCL: transformers 5.1.0 no longer supports ccl"
    assert [note for note in fallen.notes if note.startswith(start) and "#42852" in note]
    assert not [note for note in chosen.notes if "oneCCL" in note]


def test_libraries_are_never_older_than_a_new_transformers_can_use() -> None:
    made = planner.make_plan(Request(torch="2.6.0", transformers="5.23.0"), TABLE)

    assert made.as_of == datetime.date(2026, 6, 24)
    assert [note for note in made.notes if note.startswith("libraries as of 2026-06-24")]


@pytest.mark.parametrize(
    ("asked", "base"),
    [
        (Request(), "debian"),
        (Request(torch="2.4.0", transformers="4.46.0"), "intel"),
        (Request(torch="2.4.0", transformers="4.46.0", base="debian"), "debian"),
        (Request(base="host/image:1", python="3.11"), "host/image:1"),
        (Request(base="oci:directory", python="3.11"), "oci:directory"),
    ],
)
def test_a_plan_names_its_base_as_it_is_asked_for(asked: Request, base: str) -> None:
    assert planner.make_plan(asked, TABLE).base == base


TODAY = datetime.date(2026, 11, 21)


def test_a_day_that_is_not_over_is_planned_with_a_note() -> None:
    today = planner.make_plan(Request(as_of="2026-11-21"), TABLE, TODAY)
    yesterday = planner.make_plan(Request(as_of="2026-11-20"), TABLE, TODAY)

    assert [note for note in today.notes if note not in yesterday.notes] == [
        "2026-11-21 is not over (UTC): the same command may find other packages later, --lock FILE finds these"
    ]


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        (Request(torch="2.10.0"), None),
        (Request(), "--torch 2.10.0"),
        (Request(torch="2.4.0", transformers="4.46.0"), "--base debian"),
        (Request(torch="2.4.0", transformers="4.46.0", base="debian"), None),
    ],
)
def test_the_images_of_an_index_have_the_same_releases(asked: Request, remedy: str | None) -> None:
    plans = [planner.make_plan(replace(asked, platform=each), TABLE) for each in PLATFORMS]

    if remedy is None:
        planner.require_same_releases(plans)
        return
    with pytest.raises(UserFault, match="different releases") as caught:
        planner.require_same_releases(plans)
    assert caught.value.remedy == remedy


@pytest.mark.parametrize(
    ("day", "asked", "said"),
    [
        ("2026-07-11", Request(), None),
        ("2026-07-12", Request(), r"bookworm is mended by LTS until 2028-06-30, .*; trixie, .*: --python 3\.13$"),
        ("2028-07-01", Request(), r"bookworm is mended by nobody since 2028-06-30; trixie, .*: --python 3\.13$"),
        ("2026-07-12", Request(torch="2.4.0", transformers="4.46.0", base="debian"), r"\(until 2026-07-11\)$"),
        ("2026-07-12", Request(python="3.13"), None),
        ("2028-08-10", Request(python="3.13"), r"^Debian trixie is mended by LTS until 2030-06-30, .*2028-08-09\)$"),
        ("2025-08-08", Request(python="3.13"), r"^Debian trixie is mended by nobody before 2025-08-09.*; bookworm, "),
        ("2030-07-01", Request(base="host/image:1", python="3.11"), None),
        ("2030-07-01", Request(base="intel", torch="2.4.0", transformers="4.46.0"), None),
    ],
)
def test_a_suite_that_its_security_team_no_more_mends_is_named_with_one_that_it_mends(
    day: str, asked: Request, said: str | None
) -> None:
    table = TABLE.model_copy(update={"suites": TABLE.suites[:2]})  # those of these rows

    made = planner.make_plan(replace(asked, as_of=None), table, datetime.date.fromisoformat(day))

    assert made.support is None if said is None else re.search(said, made.support or "")
    assert not [note for note in made.notes if "mended" in note]  # a build is not told at each time
