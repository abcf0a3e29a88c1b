"""Which releases, which base and which backend a request gets, and what is said where nothing goes together."""

from __future__ import annotations

import dataclasses
import datetime
import shlex
from types import ModuleType

import pytest
from packaging.version import Version

from images.host.errors import UserFault
from images.model import Request
from images.plan import catalog, compatibility
from images.plan.request import problems
from images.plan.selection import day_problems, select

TABLE = catalog.load()


@pytest.mark.parametrize(
    ("options", "pair"),
    [
        ({}, (TABLE.default_torch, TABLE.default_transformers)),
        ({"torch": "2.2.0"}, (Version("2.2.0"), Version("5.0.0"))),
        ({"transformers": "4.52.4"}, (Version("2.6.0"), Version("4.52.4"))),
        ({"torch": "2.4.0", "transformers": "4.46.3"}, (Version("2.4.0"), Version("4.46.3"))),
    ],
)
def test_the_release_that_was_not_asked_for_follows_the_other(
    options: dict[str, str], pair: tuple[Version, Version]
) -> None:
    found = select(Request(**options), TABLE)  # type: ignore[arg-type]

    assert (found.torch.version, found.transformers.version) == pair


def test_a_base_that_does_not_fit_gives_way_to_the_next() -> None:
    asked = {"torch": "2.4.0", "transformers": "4.46.3"}

    assert select(Request(**asked), TABLE).base_choice.base is TABLE.intel  # type: ignore[arg-type]
    assert select(Request(**asked, python="3.11"), TABLE).base_choice.base is TABLE.debian  # type: ignore[arg-type]


@pytest.mark.parametrize(("backend", "ccl"), [(None, False), ("gloo", False)])
def test_the_reasons_against_ccl_are_kept(backend: str | None, ccl: bool) -> None:
    found = select(Request(torch="2.4.0", transformers="5.1.0", backend=backend), TABLE)

    assert found.ccl is ccl
    assert [reason for reason in found.against_ccl if "transformers 5.1.0 no longer supports ccl" in reason]


CONFLICTS = [
    ({"torch": "2.4.0", "transformers": "5.1.0", "backend": "ccl"}, ["5.1.0 no longer supports ccl", "#42852"]),
    ({"torch": "2.8.0", "transformers": "4.57.6", "backend": "ccl"}, ["torch 2.8.0 has no oneCCL bindings", "#3690"]),
    ({"torch": "1.13.1", "transformers": "4.40.2", "backend": "ccl"}, ["are made for Python 3.7 to 3.10, not 3.11"]),
    ({"torch": "2.7.0", "transformers": "4.52.4"}, ["requires torch >=2.1,<2.7, not 2.7.0", "metadata of 4.52.1"]),
    ({"torch": "1.12.1", "transformers": "4.46.0"}, ["Python 3.7 to 3.10", "--base IMAGE --python 3.10"]),
    ({"torch": "1.10.0", "transformers": "4.30.0"}, ["Python 3.6 to 3.9", "--base IMAGE --python 3.9"]),
    ({"torch": "1.10.0", "transformers": "4.30.0", "base": "m:1", "python": "3.8"}, ["entrypoint requires Python 3.9"]),
    ({"torch": "2.13.0", "transformers": "5.23.0", "base": "intel"}, ["no image for several nodes", "has 3.10"]),
    ({"torch": "2.13.0", "transformers": "5.23.0", "python": "3.12"}, ["Python 3.12 was asked for"]),
    ({"torch": "2.13.0", "transformers": "5.23.0", "as_of": "2026-07-08"}, ["before the releases", "of 2026-11-13"]),
    (
        {"torch": "2.4.0", "transformers": "5.23.0", "backend": "ccl"},
        ["requires torch >=2.6, not 2.4.0", "requires Python >=3.11, Intel's image has 3.10", "no longer supports ccl"],
    ),
]


@pytest.mark.parametrize(("options", "facts"), CONFLICTS)
def test_all_conflicts_come_at_once_with_a_request_that_works(options: dict[str, str], facts: list[str]) -> None:
    with pytest.raises(UserFault) as caught:
        select(Request(**options), TABLE)  # type: ignore[arg-type]

    for fact in facts:
        assert fact in caught.value.value
    assert caught.value.fact == "these do not go together"
    select(typed(caught.value.remedy), TABLE)


def typed(command: str) -> Request:
    """Read a suggested command."""
    words = shlex.split(command)
    assert words[:2] == ["python", "build.py"]
    pairs = zip(words[2::2], words[3::2], strict=True)
    return Request(**{name.removeprefix("--").replace("-", "_"): value for name, value in pairs})  # type: ignore[arg-type]


def count_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[None]:
    """Let a function of a module leave a mark each time that it is called."""
    real, marks = getattr(module, name), list[None]()

    def marked(*words: object) -> object:
        marks.append(None)
        return real(*words)

    monkeypatch.setattr(module, name, marked)
    return marks


@pytest.mark.parametrize("wishes", [{}, {"backend": "ccl"}, {"base": "mine:1", "python": "3.9"}])
def test_every_pair_plans_or_is_told_what_does(wishes: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With so much work for each at most, whatever the time is that a machine takes for it."""
    looks = count_calls(monkeypatch, compatibility, "conflicts")
    planned, suggested = 0, set()

    for torch in TABLE.torch:
        for transformers in sorted(TABLE.transformers)[::4]:
            try:
                asked = Request(torch=str(torch), transformers=str(transformers), **wishes)  # type: ignore[arg-type]
                made = select(asked, TABLE)
            except UserFault as fault:
                suggested.add(fault.remedy)
            else:
                planned += 1
                assert (made.torch.version, made.transformers.version) == (torch, transformers)

    assert planned > 25
    assert suggested
    for command in suggested:
        select(typed(command), TABLE)
    assert len(looks) < 50 * (len(TABLE.torch) * len(TABLE.transformers) + len(suggested))


TODAY = datetime.date(2026, 11, 21)
DATE, EARLY = "that is not a date", "nothing can be known as of a day that has not come"


@pytest.mark.parametrize(
    ("text", "fact", "value", "day"),
    [
        ("tomorrow", DATE, "'tomorrow'", "2026-11-13"),
        ("", DATE, "''", "2026-11-13"),
        # What newer releases of Python read as a date, and older ones do not.
        ("20261120", DATE, "'20261120'", "2026-11-13"),
        ("2026-W47-5", DATE, "'2026-W47-5'", "2026-11-13"),
        ("2026-11-2\u0661", DATE, "'2026-11-2\u0661'", "2026-11-13"),
        (" 2026-11-20", DATE, "' 2026-11-20'", "2026-11-13"),
        ("2026-11-20\n", DATE, "'2026-11-20\\n'", "2026-11-13"),
        ("2026-02-30", DATE, "'2026-02-30'", "2026-11-13"),
        ("2026-11-22", EARLY, "2026-11-22 (today: 2026-11-21, UTC)", "2026-11-20"),
        ("9999-12-31", EARLY, "9999-12-31 (today: 2026-11-21, UTC)", "2026-11-20"),
    ],
)
def test_a_day_that_cannot_be_used_has_three_parts(text: str, fact: str, value: str, day: str) -> None:
    [found] = day_problems(Request(as_of=text), [], TABLE, TODAY)

    assert (found.fact, found.value, found.remedy) == (fact, value, f"--as-of {day}")
    assert found.corrected == Request(as_of=day)


@pytest.mark.parametrize("text", [None, "2026-11-21", "2026-11-13"])
def test_another_day_is_no_problem(text: str | None) -> None:
    assert day_problems(Request(as_of=text), [], TABLE, TODAY) == []


@pytest.mark.parametrize(
    ("asked", "day"),
    [
        (Request(torch="2.4.0", transformers="4.46.0"), "2024-10-24"),
        (Request(torch="2.2.0"), "2026-01-26"),
        (Request(torch="2.4.9", transformers="4.46.0", python="z"), "2024-10-24"),
        (Request(torch="x", base="mine:1"), "2026-11-13"),
    ],
)
def test_a_day_is_one_of_the_releases_that_are_asked_for_or_named_instead(asked: Request, day: str) -> None:
    [found] = day_problems(dataclasses.replace(asked, as_of="never"), problems(asked, TABLE), TABLE, TODAY)

    assert found.remedy == f"--as-of {day}"


@pytest.mark.parametrize("text", ["never", "2026-11-12", "2026-07-08", "2030-01-01"])
@pytest.mark.parametrize("today", [datetime.date(2025, 1, 1), datetime.date(2026, 11, 12)])
def test_a_clock_that_is_set_back_is_said_instead_of_a_day_that_is_refused(text: str, today: datetime.date) -> None:
    asked = Request(as_of=text)
    found = [each.remedy for each in day_problems(asked, [], TABLE, today)]
    if not found:
        with pytest.raises(UserFault) as caught:
            select(asked, TABLE, today)
        found = [caught.value.remedy]

    assert found == [f"set the clock of this machine: it shows {today} (UTC), and there are releases of 2026-11-13"]
