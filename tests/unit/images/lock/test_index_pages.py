"""What pages of a package index say of its files."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from images.foreign import documents
from images.host import limits
from images.host.errors import Fault, UserFault, WorldFault
from images.host.limits import Limit
from images.lock import index_pages
from images.lock.index_pages import IndexAnswer, Page, PageFile
from images.pip_config import Sources
from images.plan import catalog, planner
from images.plan.plan import Request
from tests.support import locks
from tests.support.growth import assert_linear, repeat
from tests.support.web import Reply, answered
from tests.support.web import Request as Asked


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
    text = '<base href="https://host.example/files/"><!-- <a href="six-0.9.zip">six</a> --><A HREF=six-1.0.zip>'
    (tmp_path / "six/index.html").write_text(text)

    page = index_pages.read_page(str(tmp_path), "six", Sources())

    assert page and [file.url for file in page.files] == ["https://host.example/files/six-1.0.zip"]


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


JSON, SIMPLE = "application/vnd.pypi.simple.v1+json", "application/vnd.pypi.simple.v1+html"
PAGE = json.dumps({"meta": {"api-version": "1.1"}, "files": []})
ODD = {
    "too many values": (PAGE.replace("[]", "[" + "{}," * documents.MOST + "{}]"), JSON, "values"),
    "a number without end": (PAGE.replace("[]", "1" * 400), JSON, "integer"),
    "no number": (PAGE.replace("[]", "1e999"), JSON, "number"),
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

    page = index_pages.read_page("https://host.example/simple", "six", Sources())

    assert page and [file.name for file in page.files] == ["six-1.0.zip"]


def html(body: str) -> Reply:
    return Reply(200, body.encode(), {"Content-Type": "text/html"})


def in_json(version: str = "1.0", **fields: object) -> Reply:
    file = {"filename": "six-1.0.zip", "url": "six-1.0.zip", "hashes": {"sha256": "AB"}, **fields}
    return as_json(json.dumps({"meta": {"api-version": version}, "files": [file]}))


def as_json(text: str) -> Reply:
    return Reply(200, text.encode(), {"Content-Type": JSON})


LINK, EMPTY = '<a href="six-1.0.zip">', "<a href=other-1.0.zip>"
KNOWN = PageFile("six-1.0.zip", "https://host.example/simple/six/six-1.0.zip", None)
IN_JSON = PageFile("six-1.0.zip", "six-1.0.zip", "ab")
PAGES: dict[str, tuple[Reply | None, tuple[PageFile, ...] | str | None]] = {
    "none": (Reply(404), None),
    "links": (html(LINK), (KNOWN,)),
    "a link with its hash": (html(f"<a href=six-1.0.zip#sha256={'A' * 64}>"), (KNOWN._replace(sha256="a" * 64),)),
    "a link with another hash": (html("<a href=six-1.0.zip#md5=1>"), (KNOWN,)),
    "a link whose letters are written otherwise": (html("<a href=' six%2D1.0.zip '>"), (KNOWN._replace(
        url="https://host.example/simple/six/six%2D1.0.zip"),)),
    "a link upwards": (html("<a href=../six-1.0.zip?x=1>"), (KNOWN._replace(
        url="https://host.example/simple/six-1.0.zip?x=1"),)),
    "a link to nowhere": (html(f"<a name=six-1.0.zip>{LINK}"), (KNOWN,)),
    "a base that leads nowhere": (html(f"<base target=_top>{LINK}"), (KNOWN,)),
    "a link of another kind": (html("<a href=six-1.0.txt>"), "no file of Six"),
    **{f"a link of the kind {end}": (html(LINK.replace(".zip", end)), (
        KNOWN._replace(name=f"six-1.0{end}", url=f"https://host.example/simple/six/six-1.0{end}"),))
       for end in (".whl", ".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".egg", ".exe")},
    "links for another": (html(EMPTY), "no file of Six"),
    "links for one of a longer name": (html("<a href=sixty-1.0.zip>"), "no file of Six"),
    "none of its own and a heading": (html(f"<title>Links for SIX</title>{EMPTY}"), ()),
    "none of its own and two headings": (html("<title>Links for other</title><h1>Links for six</h1>"), ()),
    "none of its own and a heading of another": (html("<h1>Links for other</h1>"), "no file of Six"),
    "none of its own and a version": (html('<meta name="pypi:repository-version" content="1.9">'), ()),
    "a later version": (html(f'<meta name="pypi:repository-version" content="2.0">{LINK}'), "version '2.0'"),
    "another meta": (html('<meta name="viewport" content="2.0">'), "no file of Six"),
    "by its own type": (Reply(200, b"", {"Content-Type": SIMPLE}), ()),
    "JSON": (in_json(), (IN_JSON,)),
    "JSON of a file without a sha256": (in_json(hashes={}), (IN_JSON._replace(sha256=None),)),
    "JSON of a file with its day": (in_json(**{"upload-time": "2026"}), (IN_JSON._replace(uploaded="2026"),)),
    "JSON of a file withdrawn with a reason": (in_json(yanked="it is broken"), (IN_JSON._replace(yanked=True),)),
    "JSON of a file withdrawn without": (in_json(yanked=""), (IN_JSON._replace(yanked=True),)),
    "JSON of a file that is there": (in_json(yanked=False), (IN_JSON,)),
    "JSON of a later version": (in_json("2.0"), "version '2.0'"),
    "JSON of something else": (as_json('{"message": "no"}'), JSON),
    "a list": (as_json("[]"), JSON),
    "JSON cut short": (as_json(PAGE[:-1]), JSON),
    "JSON without end": (as_json("[" * 100_000), JSON),
    "files that are none": (as_json(PAGE.replace("[]", '["six-1.0.zip"]')), JSON),
    "another JSON": (Reply(200, PAGE.encode(), {"Content-Type": "application/json"}), "application/json"),
    "no type": (Reply(200, LINK.encode()), "no Content-Type"),
    "another type": (Reply(200, LINK.encode(), {"Content-Type": "text/plain"}), "text/plain"),
    "an error": (Reply(500, b"out of order"), "500"),
    "of a proxy's own": (Reply(203, LINK.encode(), {"Content-Type": "text/html"}), "203"),
    "gone": (Reply(410, LINK.encode(), {"Content-Type": "text/html"}), "410"),
    "no answer": (None, "hung up"),
    "a login that is wanted": (Reply(401), "refuses the login"),
    "a login of a proxy": (Reply(407), "refuses the login"),
    "a login that may not": (Reply(403), "refuses the login"),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "expected"), PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("slash", ["", "/"])
def test_an_index_has_a_page_or_none_and_anything_else_is_no_answer(
    reply: Reply | None, expected: tuple[PageFile, ...] | str | None, slash: str
) -> None:
    with (
        answered(lambda _: reply) as asked,
        nullcontext() if not isinstance(expected, str) else pytest.raises(Fault) as caught,
    ):
        page = index_pages.read_page(f"https://host.example/simple{slash}", "Six", Sources())
        assert (page.files if page else None) == expected

    assert {request.target for request in asked} == {"https://host.example/simple/six/"}
    assert {request.headers["Accept"] for request in asked} == {f"{JSON}, {SIMPLE};q=0.2, text/html;q=0.01"}
    if isinstance(expected, str) and caught:
        assert expected in f"{caught.value.fact}: {caught.value.value}"
        assert isinstance(caught.value, UserFault) is (expected == "refuses the login")
        assert (index_pages.STORE in caught.value.remedy) is (reply is not None and reply.status == 403)


STORES = ("download.pytorch.org", "pytorch-extension.intel.com")


@pytest.mark.parametrize(
    ("host", "status", "is_there"),
    [("host.example", 200, True), ("host.example", 404, False), ("host.example", 401, False),
     (STORES[0], 404, True)],
)  # fmt: skip
def test_an_index_answers_for_itself_but_for_a_store_of_files(host: str, status: int, *, is_there: bool) -> None:
    with answered(lambda _: Reply(status)) as asked:
        assert index_pages.has_root(f"https://{host}/simple", Sources()) is is_there

    assert [request.target for request in asked] == [f"https://{host}/simple/"] * (host not in STORES)


def test_an_index_that_hangs_up_is_said_and_one_of_this_machine_is_looked_for(tmp_path: Path) -> None:
    with answered(lambda _: None), pytest.raises(WorldFault, match="cannot reach a package index"):
        index_pages.has_root("https://host.example/simple", Sources())

    assert [index_pages.has_root(str(place), Sources()) for place in (tmp_path, tmp_path / "none")] == [True, False]


def test_indexes_that_have_a_page_are_known_and_the_first_that_has_no_answer_is_named() -> None:
    pages = [(f"https://{host}.example/simple", name) for host in ("one", "two") for name in ("six", "torch")]

    def answer_for(request: Asked) -> Reply | None:
        return html(LINK) if "//one" in request.target and request.path.endswith("/six/") else Reply(404)

    with answered(answer_for):
        assert index_pages.having(pages, Sources()) == {"https://one.example/simple"}
    with answered(lambda _: None), pytest.raises(WorldFault, match=r"https://one\.example/simple/six/"):
        index_pages.having(pages, Sources())


@pytest.mark.parametrize(
    ("sources", "indexes", "addresses"),
    [
        (Sources(index="https://a:b@one/"), ["https://a:b@one/"], ["https://one"]),
        (Sources(index="https://one", extra=("https://two", "https://one/")), ["https://one", "https://two",
            "https://one/"], ["https://one", "https://two"]),
        (Sources(index="https://one", no_index=True, links=("https://page/", "/here")), [], ["https://page"]),
        (Sources(index="/here"), ["/here"], []),
    ],
)  # fmt: skip
def test_indexes_are_in_their_order_and_addresses_without_logins(
    sources: Sources, indexes: list[str], addresses: list[str]
) -> None:
    assert index_pages.list_indexes(sources) == indexes
    assert index_pages.list_addresses(sources) == tuple(addresses)


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
    """A second index has the first file alone, and another one nothing."""
    pages = {"https://one/simple": files, "https://two/simple": files[:1]}
    monkeypatch.setattr(
        index_pages, "read_page", lambda index, *_: Page(index, tuple(pages[index])) if index in pages else None
    )
    plan = replace(PLAN, user_packages=tuple(lines))

    chosen = index_pages.find_newest(
        plan, Sources(index="https://one/simple", extra=("https://other/simple", "https://two/simple"))
    )

    assert {name: str(newest_) for name, newest_ in chosen.items()} == ({"a": version} if version else {})


def test_what_moves_with_transformers_has_a_day_of_its_own() -> None:
    assert [index_pages.day_of(name, PLAN) for name in ("hf_xet", "peft")] == [PLAN.family_as_of, PLAN.as_of]


@pytest.mark.parametrize(
    ("files", "address"),
    [
        ([PageFile("a.whl", "other/a.whl", "1" * 64), PageFile("b.whl", "b.whl", "0" * 64)], "https://h/x/b.whl"),
        ([PageFile("a.whl", "a.whl", None)], "https://h/x/a.whl"),
        ([PageFile("a.whl", "/a.whl", "1" * 64), PageFile("b.whl", "b.whl", None)], None),
    ],
)
def test_a_file_is_known_by_its_sha256_or_without_one_by_its_name(files: list[PageFile], address: str | None) -> None:
    assert Page("https://h/x/", tuple(files)).address(locks.artifact("a", "1", "a.whl", "0" * 64)) == address


ENDS = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz", ".egg", ".exe")


def test_files_of_a_project_are_known_by_the_ends_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"Six-1.0{end}" for end in ENDS]
    others = ["six-1.0.html", "six-1.0.tar", "six", "sixty-1.0.zip", "a-six-1.0.zip"]
    answer(monkeypatch, "".join(f"<a href=../x/{name}>" for name in (*names, *others)), "text/html")

    page = index_pages.read_page("https://host.example/simple", "six", Sources())

    assert page and [file.name for file in page.files] == names


def test_a_page_that_comes_in_gzip_is_read() -> None:
    page, head = gzip.compress(b"<a href=a-1.tar.gz>"), {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    with answered(lambda _: Reply(200, page, head)):
        read = index_pages.read_page("https://zipped.example/simple", "a", Sources())

    assert read and [file.name for file in read.files] == ["a-1.tar.gz"]


@pytest.mark.parametrize("host", STORES)
def test_a_store_of_pages_answers_without_a_page_of_its_own(host: str) -> None:
    assert index_pages.has_root(f"https://{host}/whl/cpu", Sources())


def test_a_page_on_disk_that_names_no_files_is_none_of_an_index(tmp_path: Path) -> None:
    assert index_pages.read_page(str(tmp_path), "a", Sources()) is None
    (tmp_path / "a").mkdir()
    (tmp_path / "a/index.html").write_text("<p>a page of somebody's")

    with pytest.raises(WorldFault, match="does not answer as a package index"):
        index_pages.read_page(str(tmp_path), "a", Sources())
