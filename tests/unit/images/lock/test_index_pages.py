"""What pages of a package index say of its files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from images.foreign import documents
from images.host import limits
from images.host.errors import WorldFault
from images.host.limits import Limit
from images.lock import index_pages
from images.lock.index_pages import IndexAnswer
from images.pip_config import Sources
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
