"""Which releases, which base and which backend a request gets, and what is said where nothing goes together."""

from __future__ import annotations

import datetime
import shlex

import pytest
from packaging.version import Version

from images.host.errors import UserFault
from images.model import Request
from images.plan import catalog, choose
from images.plan.choose import problems

TABLE = catalog.load()
TODAY = datetime.date(2026, 11, 21)


def select(asked: Request) -> choose.Selection:
    return choose.select(asked, TABLE, TODAY)


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
    found = select(Request(**options))  # type: ignore[arg-type]

    assert (found.torch.version, found.transformers.version) == pair


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
        select(Request(**options))  # type: ignore[arg-type]

    for fact in facts:
        assert fact in caught.value.value
    assert caught.value.fact == "these do not go together"
    select(typed(caught.value.remedy))


def test_a_base_with_a_glibc_that_is_too_old_does_not_go_with_a_torch() -> None:
    old = tuple(suite.model_copy(update={"glibc": "2.27"}) for suite in TABLE.suites)

    with pytest.raises(UserFault, match=r"require glibc 2\.28, the debian base \(bookworm\) has 2\.27"):
        choose.select(Request(base="debian"), TABLE.model_copy(update={"suites": old}), TODAY)


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
        for transformers in sorted(TABLE.transformers)[::8]:
            try:
                made = select(Request(torch=str(torch), transformers=str(transformers), **wishes))  # type: ignore[arg-type]
            except UserFault as fault:
                suggested.add(fault.remedy)
            else:
                planned += 1
                assert (made.torch.version, made.transformers.version) == (torch, transformers)

    assert planned > 10 and suggested
    for command in suggested:
        select(typed(command))


NO_RELEASE = "no such release of {} in images/versions.toml"
MINOR = "that is not a minor release of Python"
TASK = "no directory of the examples for text has that name"
DATE, EARLY = "that is not a date", "nothing can be known as of a day that has not come"


@pytest.mark.parametrize(
    ("asked", "fact", "value", "remedy"),
    [
        (Request(torch="2.12.9"), NO_RELEASE.format("torch"), "2.12.9", "--torch 2.12.1"),
        (Request(torch="0.1"), NO_RELEASE.format("torch"), "0.1", "--torch 1.10.0"),
        (Request(torch="latest"), "that is not a version of torch", "'latest'", "--torch 2.13.0"),
        (Request(torch="9" * 5000), "that is not a version of torch", f"'{'9' * 5000}'", "--torch 2.13.0"),
        (Request(transformers="4.57.9"), NO_RELEASE.format("transformers"), "4.57.9", "--transformers 4.57.6"),
        (Request(transformers=""), "that is not a version of transformers", "''", "--transformers 5.23.0"),
        (Request(python="3.11.2"), MINOR, "'3.11.2'", "--python 3.11"),
        (Request(base="mine:1", python="3.\u0661"), MINOR, "'3.\u0661'", "--python 3.11"),
        (Request(base=" "), "that is not a base", "' '", "--base debian"),
        (Request(base="mine:1"), "the Python of an image must be given", "mine:1", "--base mine:1 --python 3.11"),
        (Request(tasks=("question-answer",)), TASK, "'question-answer'", "--tasks question-answering"),
        (Request(tasks=("xyz",)), TASK, "'xyz'", "--tasks with one or more of " + ", ".join(TABLE.tasks)),
        (Request(as_of="tomorrow"), DATE, "'tomorrow'", "--as-of YYYY-MM-DD"),
        (Request(as_of="20261120"), DATE, "'20261120'", "--as-of YYYY-MM-DD"),  # newer releases of Python read it
        (Request(as_of="2026-11-2\u0661"), DATE, "'2026-11-2\u0661'", "--as-of YYYY-MM-DD"),
        (Request(as_of="2026-02-30"), DATE, "'2026-02-30'", "--as-of YYYY-MM-DD"),
        (Request(as_of="2026-11-22"), EARLY, "2026-11-22 (today: 2026-11-21, UTC)", "--as-of 2026-11-20"),
    ],
)
def test_a_problem_has_three_parts(asked: Request, fact: str, value: str, remedy: str) -> None:
    assert problems(asked, TABLE, TODAY) == [(fact, value, remedy)]


@pytest.mark.parametrize(
    "asked",
    [
        Request(),
        Request(torch="2.13.0", transformers="5.23.0", python="3.12", base="mine:1", backend="ccl"),
        Request(torch="2.13", base="intel", tasks=("question-answering", "translation"), as_of="2026-11-21"),
    ],
)
def test_what_can_be_understood_has_no_problems(asked: Request) -> None:
    assert problems(asked, TABLE, TODAY) == []


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(UserFault) as caught:
        select(Request(torch="x", transformers="y", python="z", base=" ", as_of="?", tasks=("a", "b")))

    assert caught.value.value.count(";") == 6
