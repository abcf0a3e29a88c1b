"""Which release of a user's package would be the newest, as pages of indexes say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from images.lock import index_pages
from images.lock.index_pages import Page, PageFile
from images.pip_config import Sources
from images.plan import catalog, planner
from images.plan.plan import Request

PLAN = planner.make_plan(Request(), catalog.load())
DAY, NEXT = f"{PLAN.as_of}T23:59:59Z", f"{PLAN.family_as_of}T10:00:00Z"
assert PLAN.as_of < PLAN.family_as_of


def file(name: str, uploaded: str | None = DAY, *, yanked: bool = False) -> PageFile:
    return PageFile(name, f"https://host/{name}", None, uploaded, yanked)


@pytest.mark.parametrize(
    ("lines", "files", "version"),
    [
        (["a"], [file("a-1.0.tar.gz"), file("a-1.10-py3-none-any.whl"), file("a-1.9.zip")], "1.10"),
        (["a"], [file("a-1.0.tar.gz"), file("a-2.0.tar.gz", NEXT)], "1.0"),
        (["a"], [file("a-1.0.tar.gz"), file("a-2.0.tar.gz", None)], "1.0"),  # uv takes none without a day either
        (["a"], [file("a-1.0.tar.gz"), file("a-2.0rc1.tar.gz"), file("a-2.0+cpu.tar.gz")], "1.0"),
        (["a"], [file("a-1.0.tar.gz"), file("a-2.0.tar.gz", yanked=True), file("a.exe"), file("a-x.whl")], "1.0"),
        (["a<2", "a!=1.5"], [file("a-1.4.tar.gz"), file("a-1.5.tar.gz"), file("a-2.0.tar.gz")], "1.4"),
        (["a==1.*"], [file("a-1.4.tar.gz"), file("a-2.0.tar.gz")], "1.4"),
        (["a==1.0"], [file("a-1.0.tar.gz"), file("a-2.0.tar.gz")], None),
        (["a==1.0", "a"], [file("a-1.0.tar.gz"), file("a-2.0.tar.gz")], None),
        (["a<2 --constraint"], [file("a-1.0.tar.gz")], None),
        (['a; python_version < "3.8"'], [file("a-1.0.tar.gz")], None),
        (["a"], [], None),
    ],
)
def test_the_newest_is_what_lines_and_the_day_allow(
    monkeypatch: pytest.MonkeyPatch, lines: Sequence[str], files: Sequence[PageFile], version: str | None
) -> None:
    monkeypatch.setattr(
        index_pages, "read_page", lambda index, *_: Page(index, tuple(files)) if "one" in index else None
    )
    plan = replace(PLAN, user_packages=tuple(lines))

    found = index_pages.find_newest(plan, Sources(index="https://one/simple", extra=("https://other/simple",)))

    assert {name: str(newest_) for name, newest_ in found.items()} == ({"a": version} if version else {})


def test_what_moves_with_transformers_has_a_day_of_its_own() -> None:
    assert [index_pages.day_of(name, PLAN) for name in ("hf_xet", "peft")] == [PLAN.family_as_of, PLAN.as_of]
