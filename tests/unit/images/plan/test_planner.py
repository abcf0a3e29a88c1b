"""Requests -> plans: what goes in, as of which days, and what is said with it."""

from __future__ import annotations

import datetime
import re
import shlex
from dataclasses import replace

import pytest

from images.host.errors import LONGEST, UserFault, shortened
from images.plan import catalog, planner
from images.plan.plan import Request
from images.platforms import PLATFORMS

TABLE = catalog.load()
TODAY = datetime.date(2026, 11, 21)


def select(asked: Request) -> planner.Selection:
    return planner.select(asked, TABLE, TODAY)


def test_a_base_that_does_not_fit_gives_way_to_the_next() -> None:
    asked = {"torch": "2.4.0", "transformers": "4.46.3"}

    assert select(Request(**asked)).base.base is TABLE.intel  # type: ignore[arg-type]
    assert select(Request(**asked, python="3.11")).base.base is TABLE.debian  # type: ignore[arg-type]


CONFLICTS = [
    ({"torch": "2.4.0", "transformers": "5.1.0", "backend": "ccl"}, ["5.1.0 no longer supports ccl", "#42852"]),
    ({"torch": "2.8.0", "transformers": "4.57.6", "backend": "ccl"}, ["torch 2.8.0 has no oneCCL bindings", "#3690"]),
    ({"torch": "1.13.1", "transformers": "4.40.2", "backend": "ccl"}, ["are made for Python 3.7 to 3.10, not 3.11"]),
    ({"torch": "2.7.0", "transformers": "4.52.4"}, ["requires torch >=2.1,<2.7, not 2.7.0", "metadata of 4.52.1"]),
    ({"torch": "1.12.1", "transformers": "4.46.0"}, ["Python 3.7 to 3.10", "--base IMAGE --python 3.10"]),
    ({"torch": "1.10.0", "transformers": "4.30.0", "base": "m:1", "python": "3.8"}, ["entrypoint requires Python 3.9"]),
    (
        {"torch": "2.4.0", "transformers": "5.23.0", "backend": "ccl"},
        ["requires torch >=2.6, not 2.4.0", "requires Python >=3.11, Intel's image has 3.10", "no longer supports ccl"],
    ),
]


@pytest.mark.parametrize(("options", "facts"), CONFLICTS)
def test_all_conflicts_come_at_once_with_a_request_that_works(options: dict[str, str], facts: list[str]) -> None:
    with pytest.raises(UserFault) as caught:
        select(Request(**options))  # type: ignore[arg-type]

    for fact in facts:
        assert fact in caught.value.value
    assert caught.value.fact == "these do not go together"
    select(typed(caught.value.remedy))


def test_a_base_with_a_glibc_that_is_too_old_does_not_go_with_a_torch() -> None:
    old = tuple(suite.model_copy(update={"glibc": "2.27"}) for suite in TABLE.suites)

    with pytest.raises(UserFault, match=r"require glibc 2\.28, the debian base \(bookworm\) has 2\.27"):
        planner.select(Request(base="debian"), TABLE.model_copy(update={"suites": old}), TODAY)


def typed(command: str) -> Request:
    """Read a suggested command."""
    words = shlex.split(command)
    assert words[:2] == ["python", "build.py"]
    pairs = zip(words[2::2], words[3::2], strict=True)
    return Request(**{name.removeprefix("--").replace("-", "_"): value for name, value in pairs})  # type: ignore[arg-type]


@pytest.mark.parametrize("wishes", [{}, {"backend": "ccl"}, {"base": "mine:1", "python": "3.9"}])
def test_every_pair_plans_or_is_told_what_does(wishes: dict[str, str]) -> None:
    planned, suggested = 0, set()

    for torch in TABLE.torch:
        for transformers in sorted(TABLE.transformers)[::16]:
            try:
                chosen = select(Request(torch=str(torch), transformers=str(transformers), **wishes))  # type: ignore[arg-type]
            except UserFault as fault:
                suggested.add(fault.remedy)
            else:
                planned += 1
                assert (chosen.torch.version, chosen.transformers.version) == (torch, transformers)

    assert planned > 10 and suggested
    for command in suggested:
        select(typed(command))


@pytest.mark.parametrize("wishes", [{}, {"backend": "ccl"}, {"base": "intel"}, {"base": "mine:1", "python": "3.9"}])
def test_what_is_told_of_one_image_of_an_index_works_for_all(wishes: dict[str, str]) -> None:
    tables = {platform: TABLE.on(platform) for platform in PLATFORMS}
    suggested = set()

    for torch in TABLE.torch:
        for transformers in sorted(TABLE.transformers)[::40]:
            asked = Request(platforms=PLATFORMS, torch=str(torch), transformers=str(transformers), **wishes)  # type: ignore[arg-type]
            for platform, table in tables.items():
                try:
                    planner.select(replace(asked, platform=platform), table, TODAY)
                except UserFault as fault:
                    assert fault.fact.endswith(f"on {platform}")
                    suggested.add(fault.remedy)

    assert suggested
    for command in suggested:
        asked = typed(command)
        assert str(asked.platform) == ",".join(map(str, PLATFORMS))
        chosen = [planner.select(replace(asked, platform=platform), table, TODAY) for platform, table in tables.items()]
        assert len({selection.base.base.python for selection in chosen}) == 1


MINOR = "that is not a minor release of Python"
DATE, EARLY = "that is not a date", "--as-of is a day in the future"


@pytest.mark.parametrize(
    ("asked", "fact", "value", "remedy"),
    [
        (
            Request(torch="9" * 5000),
            "that is not a version of torch",
            shortened(f"'{'9' * 5000}'", LONGEST),
            "--torch 2.13.0",
        ),
        (Request(transformers=""), "that is not a version of transformers", "''", "--transformers 5.23.0"),
        (Request(base="mine:1", python="3.\u0661"), MINOR, "'3.\u0661'", "--python 3.11"),
        (Request(as_of="20261120"), DATE, "'20261120'", "--as-of YYYY-MM-DD"),  # newer releases of Python read it
        (Request(as_of="2026-11-2\u0661"), DATE, "'2026-11-2\u0661'", "--as-of YYYY-MM-DD"),
        (Request(as_of="2026-11-22"), EARLY, "2026-11-22 (today: 2026-11-21, UTC)", "--as-of 2026-11-20"),
    ],
)
def test_a_value_that_cannot_be_used_has_three_parts(asked: Request, fact: str, value: str, remedy: str) -> None:
    with pytest.raises(UserFault) as caught:
        select(asked)

    assert (caught.value.fact, caught.value.value, caught.value.remedy) == (fact, value, remedy)


def test_gloo_in_place_of_ccl_is_said_with_its_reason_unless_it_was_asked_for() -> None:
    request = Request(torch="2.4.0", transformers="5.1.0")

    fallen = planner.make_plan(request, TABLE)
    chosen = planner.make_plan(replace(request, backend="gloo"), TABLE)

    start = "gloo instead of oneCCL: transformers 5.1.0 no longer supports ccl"
    assert [note for note in fallen.notes if note.startswith(start) and "#42852" in note]
    assert not [note for note in chosen.notes if "oneCCL" in note]


@pytest.mark.parametrize(
    ("yanked", "near"),
    [("4.46.0", "4.46.1"), ("4.52.0", "4.52.1"), ("4.57.0", "4.57.1"), ("5.10.0", "5.10.1"), ("4.46.1", None)],
)
def test_the_nearest_good_release_stands_beside_one_that_was_yanked(yanked: str, near: str | None) -> None:
    plan = planner.make_plan(Request(torch="2.6.0", transformers=yanked), TABLE)

    said = [note.rpartition(": ")[2] for note in plan.notes if "was yanked" in note]
    assert said == ([f"build.py --torch 2.6.0 --transformers {near}"] if near else [])


def test_behind_the_newest_release_the_newest_good_one_is_the_nearest() -> None:
    newest = max(TABLE.transformers)
    rows = {**TABLE.transformers, newest: TABLE.transformers[newest].model_copy(update={"yanked": "no reason given"})}
    table = TABLE.model_copy(update={"transformers": rows})

    (note,) = (one for one in planner.make_plan(Request(transformers=str(newest)), table).notes if "yanked" in one)

    assert note.endswith(f"--transformers {max(one for one in rows if one != newest)}")


def test_libraries_are_never_older_than_a_new_transformers_can_use() -> None:
    plan = planner.make_plan(Request(torch="2.6.0", transformers="5.23.0"), TABLE)

    assert plan.as_of == datetime.date(2026, 6, 24)
    assert [note for note in plan.notes if note.startswith("libraries as of 2026-06-24")]


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
    plans = [planner.make_plan(replace(asked, platform=platform), TABLE) for platform in PLATFORMS]

    if remedy is None:
        planner.require_same_releases(plans)
        return
    with pytest.raises(UserFault, match="different releases") as caught:
        planner.require_same_releases(plans)
    assert caught.value.remedy == remedy


def test_all_releases_that_differ_are_named_with_the_oldest_of_them() -> None:
    asked = (Request(torch="2.4.0", transformers="4.46.0"), Request(torch="2.10.0", transformers="5.0.0"))
    plans = [planner.make_plan(replace(one, platform=on), TABLE) for one, on in zip(asked, PLATFORMS, strict=True)]

    with pytest.raises(UserFault) as caught:
        planner.require_same_releases(plans)
    assert caught.value.value == (
        "linux/amd64 torch 2.4.0 transformers 4.46.0 python 3.10, linux/arm64 torch 2.10.0 transformers 5.0.0 "
        "python 3.11"
    )
    assert caught.value.remedy == "--torch 2.4.0 --transformers 4.46.0 --base debian"


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

    plan = planner.make_plan(replace(asked, as_of=None), table, datetime.date.fromisoformat(day))

    assert plan.support is None if said is None else re.search(said, plan.support or "")
    assert not [note for note in plan.notes if "mended" in note]  # a build is not told at each time
