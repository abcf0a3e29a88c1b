"""What pages of a package index say of its files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from images.foreign import documents
from images.host import limits
from images.host.errors import WorldFault
from images.host.limits import Limit
from images.lock import index_pages
from images.lock.index_pages import IndexAnswer, Page, PageFile
from images.pip_config import Sources
from images.plan import catalog, planner
from images.plan.plan import Request
from tests.support import locks
from tests.support.growth import assert_linear, repeat


def test_a_file_is_found_by_its_sha256_in_any_letters(tmp_path: Path) -> None:
    wanted = dataclasses.replace(locks.artifact("six", "1.0"), sha256="ab" * 32)
    (tmp_path / "six").mkdir()
    (tmp_path / "six" / "index.html").write_text(f'<a href="six-1.0.zip#sha256={wanted.sha256.upper()}">six</a>')

    page = index_pages.read_page(str(tmp_path), "six", Sources())

    assert page and (page.address(wanted) or "").endswith("/six/six-1.0.zip")


def test_a_file_that_was_withdrawn_is_told(tmp_path: Path) -> None:
    (tmp_path / "six").mkdir()
    links = '<a href="six-1.0.zip" data-yanked="">six</a><a href="six-1.1.zip">six</a>'
    (tmp_path / "six" / "index.html").write_text(links)

    page = index_pages.read_page(str(tmp_path), "six", Sources())

    assert page and [(file.name, file.yanked, file.uploaded) for file in page.files] == [
        ("six-1.0.zip", True, None), ("six-1.1.zip", False, None)
    ]  # fmt: skip


def test_addresses_begin_where_a_page_says(tmp_path: Path) -> None:
    (tmp_path / "six").mkdir()
    page = '<base href="https://host.example/files/"><!-- <a href="six-0.9.zip">six</a> --><A HREF=six-1.0.zip>'
    (tmp_path / "six/index.html").write_text(page)

    found = index_pages.read_page(str(tmp_path), "six", Sources())

    assert found and [file.url for file in found.files] == ["https://host.example/files/six-1.0.zip"]


@pytest.mark.parametrize(
    "unit", ['<a b="c', '<a href="', "<!--", "<meta charset=", "<h1>links for ", "<a href=six-1.zip>"]
)
def test_a_hostile_page_takes_time_by_its_length(tmp_path: Path, unit: str) -> None:
    (tmp_path / "six").mkdir()

    def read(text: str) -> None:
        (tmp_path / "six/index.html").write_text(text)
        index_pages.read_page(str(tmp_path), "six", Sources())

    assert_linear(read, repeat(unit, "<p>"))


def answer(monkeypatch: pytest.MonkeyPatch, body: str, kind: str) -> None:
    """Let every page of an index be this one."""
    reply = IndexAnswer(body.encode(), kind, "https://host.example/")
    monkeypatch.setattr(index_pages, "request_answer", lambda *_: reply)


PAGE = json.dumps({"meta": {"api-version": "1.1"}, "files": []})
ODD = {
    "too many values": (PAGE.replace("[]", "[" + "{}," * documents.MOST + "{}]"), index_pages.JSON, "values"),
    "a number without end": (PAGE.replace("[]", "1" * 400), index_pages.JSON, "integer"),
    "no number": (PAGE.replace("[]", "1e999"), index_pages.JSON, "number"),
    "too many tags": ("<b>" * (index_pages.MOST_TAGS + 2), "text/html", "tags"),
    "too many bytes of HTML": ("<b " + " " * 2000 + ">", "text/html", "bytes of HTML"),
}


@pytest.mark.parametrize(("body", "kind", "said"), ODD.values(), ids=ODD)
def test_a_page_that_would_take_all_memory_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, body: str, kind: str, said: str
) -> None:
    if said == "bytes of HTML":
        monkeypatch.setattr(limits, "HTML", Limit("", 2000))
    answer(monkeypatch, body, kind)

    with pytest.raises(WorldFault, match=said):
        index_pages.having([("https://host.example/simple", "six")], Sources())


def test_a_page_in_letters_that_take_time_by_their_square_is_read_as_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(
        monkeypatch,
        "<a href=six-1.0.zip>" + "\N{LATIN SMALL LETTER E WITH ACUTE}" * 100_000,
        "text/html; charset=punycode",
    )

    found = index_pages.read_page("https://host.example/simple", "six", Sources())

    assert found and [file.name for file in found.files] == ["six-1.0.zip"]


# Which release of a user's package would be the newest, as pages of indexes say.

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
