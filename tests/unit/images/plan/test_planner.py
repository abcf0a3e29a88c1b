"""Requests -> plans: what goes in, as of which days, and what is said with it."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from images.host.errors import UserFault
from images.model import Request
from images.plan import catalog, planner
from images.platforms import PLATFORMS

TABLE = catalog.load()


def test_days_follow_torch_for_libraries_and_transformers_for_its_family() -> None:
    made = planner.resolve(Request(transformers="5.23.0"), TABLE)

    assert (made.as_of, made.family_as_of) == (datetime.date(2026, 7, 8), datetime.date(2026, 11, 13))


def test_an_older_transformers_does_not_pull_the_family_behind_torch() -> None:
    made = planner.resolve(Request(transformers="4.57.6"), TABLE)

    assert made.family_as_of == made.as_of == datetime.date(2026, 7, 8)


def test_a_yanked_release_is_planned_with_its_reason() -> None:
    made = planner.resolve(Request(transformers="5.10.0"), TABLE)

    assert made.notes == (
        "transformers 5.10.0 was yanked (We pushed from a week old main branch. It does include the latest model but "
        "uncertain its gonna be working properly and mostly it is missing a bunch of fixes!); the nearest good one: "
        "build.py --torch 2.13.0 --transformers 5.10.1",
    )


def test_tasks_choose_the_requirements() -> None:
    made = planner.resolve(Request(tasks=("question-answering",)), TABLE)

    assert "evaluate" in made.requirements
    assert not any(requirement.startswith("seqeval") for requirement in made.requirements)


def test_examples_none_plans_no_examples() -> None:
    assert planner.resolve(Request(examples="none"), TABLE).examples is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"torch": "2.4.0", "transformers": "4.46.3"}, ("3.10", "ccl")),
        ({"torch": "2.4.0", "transformers": "4.46.3", "backend": "gloo"}, ("3.10", "gloo")),
        ({"torch": "2.4.0", "transformers": "4.46.3", "base": "debian"}, ("3.11", "ccl")),
        ({"torch": "2.4.0", "transformers": "4.46.3", "python": "3.11"}, ("3.11", "ccl")),
        ({"torch": "2.4.0", "transformers": "5.1.0"}, ("3.10", "gloo")),
        ({"torch": "2.6.0", "transformers": "5.23.0"}, ("3.11", "gloo")),
        ({"torch": "1.13.1", "transformers": "4.40.2"}, ("3.11", "gloo")),
        ({"torch": "1.13.1", "transformers": "4.40.2", "base": "mine:1", "python": "3.10"}, ("3.10", "ccl")),
        ({"torch": "1.10.0", "transformers": "4.30.0", "base": "mine:1", "python": "3.9"}, ("3.9", "ccl")),
        ({"torch": "2.8.0", "transformers": "4.57.6"}, ("3.11", "gloo")),
    ],
)
def test_python_and_backend_follow_from_the_versions_and_the_base(
    options: dict[str, str], expected: tuple[str, str]
) -> None:
    made = planner.resolve(Request(**options), TABLE)  # type: ignore[arg-type]

    assert (made.python, made.backend) == expected
    assert any("oneccl" in requirement for requirement in made.requirements) == (expected[1] == "ccl")
    assert any("intel_extension" in requirement for requirement in made.requirements) == (expected[1] == "ccl")
    assert any("impi-rt" in requirement for requirement in made.requirements) == (expected[1] == "gloo")


@pytest.mark.parametrize(
    ("torch", "python", "undeclared"),
    [
        ("1.10.0", "3.9", {"numpy", "psutil"}),
        ("1.12.1", "3.10", {"numpy"}),
        ("1.13.0", "3.10", set()),
        ("1.13.1", "3.10", {"setuptools"}),
        ("2.0.1", "3.11", {"setuptools<82"}),
        ("2.3.1", "3.11", {"setuptools<82", "transformers"}),
        ("2.4.0", "3.11", {"setuptools<82", "tqdm", "transformers"}),
        ("2.7.1", "3.13", {"setuptools<82", "tqdm", "transformers"}),
    ],
)
def test_what_ipex_imports_and_does_not_require_is_required(torch: str, python: str, undeclared: set[str]) -> None:
    every = {"numpy", "psutil", "setuptools", "setuptools<82", "tqdm", "transformers"}

    asked = Request(torch=torch, base="some/image", python=python, backend="ccl")

    assert every & {*planner.resolve(asked, TABLE).requirements} == undeclared
    assert not every & {*planner.resolve(replace(asked, backend="gloo"), TABLE).requirements}


def test_gloo_in_place_of_ccl_is_said_with_its_reason_unless_it_was_asked_for() -> None:
    request = Request(torch="2.4.0", transformers="5.1.0")

    fallen = planner.resolve(request, TABLE)
    chosen = planner.resolve(replace(request, backend="gloo"), TABLE)

    start = "gloo instead of oneCCL: transformers 5.1.0 no longer supports ccl"
    assert [note for note in fallen.notes if note.startswith(start) and "#42852" in note]
    assert not [note for note in chosen.notes if "oneCCL" in note]


def test_a_version_that_was_not_asked_for_is_said_with_its_reason() -> None:
    newest = planner.resolve(Request(torch="2.2.0"), TABLE)
    fitting = planner.resolve(Request(transformers="4.52.4"), TABLE)

    assert "transformers 5.0.0 is the newest of the table that goes with torch 2.2.0" in newest.notes
    assert "torch 2.6.0 is the nearest to the default that goes with transformers 4.52.4" in fitting.notes


def test_libraries_are_never_older_than_a_new_transformers_can_use() -> None:
    made = planner.resolve(Request(torch="2.6.0", transformers="5.23.0"), TABLE)

    assert made.as_of == datetime.date(2026, 6, 24)
    assert [note for note in made.notes if note.startswith("libraries as of 2026-06-24")]


TODAY = datetime.date(2026, 11, 21)


def test_a_day_that_is_not_over_is_planned_with_a_note() -> None:
    today = planner.resolve(Request(as_of="2026-11-21"), TABLE, TODAY)
    yesterday = planner.resolve(Request(as_of="2026-11-20"), TABLE, TODAY)

    assert [note for note in today.notes if note not in yesterday.notes] == [
        "2026-11-21 is not over (UTC): the same command may find other packages later, --lock FILE finds these"
    ]


ASKED = [(None, True), (True, True), (False, False)]


@pytest.mark.parametrize(("trim", "trimmed"), ASKED)
@pytest.mark.parametrize(("bytecode", "compiled"), ASKED)
def test_wheels_are_trimmed_and_compiled_unless_it_was_asked_not_to(
    trim: bool | None, trimmed: bool, bytecode: bool | None, compiled: bool
) -> None:
    made = planner.resolve(Request(trim=trim, bytecode=bytecode), TABLE)

    assert (made.trim, made.bytecode) == (trimmed, compiled)


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
    plans = [planner.resolve(replace(asked, platform=each), TABLE) for each in PLATFORMS]

    if remedy is None:
        planner.require_same_releases(plans)
        return
    with pytest.raises(UserFault, match="different releases") as caught:
        planner.require_same_releases(plans)
    assert caught.value.remedy == remedy
