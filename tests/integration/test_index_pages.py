"""Package indexes that do not answer as one, on one page or on all; and files of a lock that one of several has."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from images.host import limits
from images.host.background import Progress
from images.host.errors import Fault, UserFault, WorldFault
from images.host.limits import Limit
from images.lock import collect, index_pages, resolve
from images.pip_config import Sources
from images.plan import catalog, planner
from images.plan.plan import Request
from images.store import download
from images.store.store import Store
from tests.support import locks, wheels
from tests.support.web import Reply, listening
from tests.support.web import Request as Asked

WHOLE = planner.make_plan(Request(torch="2.13.0", transformers="5.23.0"), catalog.load())
PLAN = dataclasses.replace(
    WHOLE, requirements=("torch==2.13.0+cpu", "transformers==5.23.0", "six==1.17.0"), source_only=()
)
NAMES = ("six", "torch", "transformers")
HTML, JSON = "text/html; charset=utf-8", "application/vnd.pypi.simple.v1+json"
DECLARED = '<!DOCTYPE html><html><head><meta name="pypi:repository-version" content="1.0"></head><body></body></html>'
TITLED = "<!DOCTYPE html><html><head><title>{0}</title></head><body><h1>{0}</h1><a href='/'>all</a></body></html>"
LOGIN = """<html><body><h1>Sign in</h1><form action="/login"><input name="user"></form>
<a href="/reset">Forgot?</a> <a href="/help.zip">Help</a></body></html>"""


def page(kind: str, text: str, status: int = 200) -> Reply:
    return Reply(status, text.encode(), {"Content-Type": kind} if kind else {})


def in_json(*files: object, version: object = "1.0") -> str:
    return json.dumps({"meta": {"api-version": version}, "name": "six", "files": files})


NO_ANSWERS = {
    "401": page(HTML, "", 401),
    "403": page("application/json", '{"message":"no"}', 403),
    "407": page(HTML, "", 407),
    "451": page(HTML, DECLARED, 451),
    "410": page(HTML, "", 410),
    "203": page(HTML, DECLARED, 203),
    "204": page(HTML, "", 204),
    "500": page(HTML, "", 500),
    "302 to a login": Reply(302, headers={"Location": "/login"}),
    "a login": page(HTML, LOGIN),
    "nothing": page(HTML, ""),
    "a text": page(HTML, "<html>Please log in</html>"),
    "files of something else": page(HTML, '<a href="/seven-1.0.zip">seven-1.0.zip</a>'),
    "a later API in HTML": page(HTML, DECLARED.replace("1.0", "2.0")),
    "another JSON": page("application/json", in_json()),
    "JSON of something else": page(JSON, '{"message": "no"}'),
    "a list": page(JSON, "[]"),
    "JSON cut short": page(JSON, in_json()[:-1]),
    "JSON without end": page(JSON, "[" * 100_000),
    "a later API": page(JSON, in_json(version="2.0")),
    "files that are none": page(JSON, in_json("six-1.0.zip")),
    "links for something else": page(HTML, TITLED.format("Links for seven")),
    "a login for links": page(HTML, TITLED.format("Sign in to see links for packages")),
    "no kind": page("", DECLARED),
    "a picture": page("image/png", DECLARED),
}
ANSWERS = {
    "HTML with a file": page(HTML, '<a href="../six-1.0.zip?x=1#md5=0">six-...</a>'),
    "a listing of a directory": page("text/html", '<a href="../">Parent</a><a href="six-1.0-py3-none-any.whl">s</a>'),
    "HTML that says so": page(HTML, DECLARED),
    "devpi's of no file": page(HTML, TITLED.format("root/pypi: links for six")),
    "Artifactory's of no file": page("text/html", TITLED.format("Links for Six")),
    "its own kind": page("application/vnd.pypi.simple.v1+html", "<html></html>"),
    "JSON": page(JSON, in_json()),
    "JSON with a file": page(JSON, in_json({"filename": "six-1.0.zip", "url": "six-1.0.zip", "hashes": {}})),
    "a redirect": Reply(302, headers={"Location": "/json"}),
}


def respond(asked: Asked, odd: Reply, only: tuple[str, ...] = NAMES) -> Reply:
    """Answer with what is odd on some pages, and with 404 on others; two more pages are where redirects lead."""
    if asked.path == "/login":
        return page(HTML, LOGIN)
    if asked.path == "/json":
        return page(JSON, in_json())
    return odd if asked.path in {f"/simple/{name}/" for name in only} else Reply(404)


@contextmanager
def public(place: Path) -> Iterator[str]:
    """Serve the wheels, as anybody's index would; yield the address of the index."""
    pages = dict[str, Reply]()
    for project, version in (("torch", "2.13.0+cpu"), ("transformers", "5.23.0"), ("six", "1.17.0")):
        path = wheels.write(place, project, version, {f"{project}.py": b"public"})
        pages |= {f"/simple/{project}/": page(HTML, linked(path)), f"/files/{path.name}": Reply(200, path.read_bytes())}
    with listening(lambda asked: pages.get(asked.path.replace("%2B", "+"), Reply(404))) as host:
        yield f"http://{host}/simple"


def linked(path: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f'<a href="/files/{path.name.replace("+", "%2B")}#sha256={digest}">{path.name}</a>'


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Serve the wheels."""
    with public(tmp_path / "public") as address:
        yield address


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a busy server once."""
    monkeypatch.setattr(download, "RETRY", download.RETRY.new(total=0))
    download.session.cache_clear()


@pytest.mark.parametrize("odd", [pytest.param(reply, id=called) for called, reply in NO_ANSWERS.items()])
def test_what_is_no_page_of_an_index_is_no_answer(odd: Reply) -> None:
    with listening(lambda asked: respond(asked, odd)) as host, pytest.raises(Fault) as caught:
        index_pages.read_page(f"http://user:secret@{host}/simple/", "six", Sources())

    assert caught.value.value.startswith(f"http://{host}/simple/six/ (")
    assert "secret" not in str(caught.value)
    assert ("s3:ListBucket" in caught.value.remedy) is (odd is NO_ANSWERS["403"])


@pytest.mark.parametrize("reply", [pytest.param(reply, id=called) for called, reply in ANSWERS.items()])
def test_what_is_a_page_of_an_index_is_read(reply: Reply) -> None:
    with listening(lambda asked: respond(asked, reply)) as host:
        read = index_pages.read_page(f"http://{host}/simple", "Six", Sources())

    assert read is not None and [file.name for file in read.files] in ([], ["six-1.0.zip"], [SIX])


SIX = "six-1.0-py3-none-any.whl"


@pytest.mark.parametrize("called", ["401", "403", "451", "203", "302 to a login", "a login", "another JSON"])
@pytest.mark.parametrize("only", [("six",), NAMES])
@pytest.mark.parametrize("is_first", [True, False])
def test_no_package_comes_from_another_index_because_one_has_not_answered(
    index: str, store: Store, called: str, only: tuple[str, ...], *, is_first: bool
) -> None:
    with listening(lambda asked: respond(asked, NO_ANSWERS[called], only)) as host:
        private = f"http://{host}/simple"
        both = Sources(index=private, extra=(index,)) if is_first else Sources(index=index, extra=(private,))
        with pytest.raises(Fault) as caught:
            resolve.resolve_packages(PLAN, locks.context(store, both, os.environ))

    assert private in caught.value.value


def test_the_only_index_names_what_it_refuses(store: Store, tmp_path: Path) -> None:
    with listening(lambda asked: respond(asked, page(HTML, "", 403))) as host, pytest.raises(Fault) as caught:
        resolve.resolve_packages(PLAN, locks.context(store, Sources(index=f"http://{host}/simple"), os.environ))

    assert caught.value.value.startswith(f"http://{host}/simple/") and caught.value.value.endswith("/ (403)")


ROOTS = {
    "has one of them": (("six",), Reply(404), None),
    "is an index, and has none": ((), page(HTML, DECLARED), "note"),
    "answers for nothing": ((), Reply(404), "error"),
    "has a page that wants a login": ((), Reply(401), "error"),
}


@pytest.mark.parametrize(("only", "root", "said"), ROOTS.values(), ids=ROOTS)
def test_an_index_that_has_none_of_all_packages_is_named(
    index: str, store: Store, capsys: pytest.CaptureFixture[str], only: tuple[str, ...], root: Reply, said: str | None
) -> None:
    """GitLab says 404 of all where there is no login, and then others could have the names of its packages."""

    def answer(asked: Asked) -> Reply:
        return root if asked.path == "/simple/" else respond(asked, page(HTML, DECLARED), only)

    with listening(answer) as host:
        context = locks.context(store, Sources(index=index, extra=(f"http://token:secret@{host}/simple",)), os.environ)
        wide = dataclasses.replace(context, progress=Progress(Console(stderr=True, width=500)))
        with pytest.raises(UserFault) if said == "error" else nullcontext() as caught:
            resolution, _ = resolve.resolve_with_users(PLAN, wide)

    told = f"{capsys.readouterr().err}{caught and caught.value}"
    assert (f"http://{host}/simple (404" in told) is (said is not None) and "secret" not in told
    if said != "error":
        assert {file.name for file in resolution.artifacts} == set(NAMES)
        assert ("note: an index has none of the packages" in told) is (said == "note")


@pytest.mark.parametrize("has_it", [True, False])
def test_an_index_of_the_user_s_packages_alone_is_judged_after_the_last_question(
    index: str, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, has_it: bool
) -> None:
    wheel = wheels.write(tmp_path / "own", "mine", "1.0", {"mine.py": b"1"})
    here = {f"/files/{wheel.name}": Reply(200, wheel.read_bytes())}
    if has_it:
        here["/simple/mine/"] = page(HTML, linked(wheel))
    here |= {} if has_it else {"/simple/": page(HTML, DECLARED)}  # where it has its package nobody asks for that
    with listening(lambda asked: here.get(asked.path, Reply(404))) as host:
        address = f"http://{host}/simple"
        sources = Sources(index=index, extra=(address,), links=() if has_it else (str(tmp_path / "own"),))
        context = locks.context(store, sources, os.environ)
        wide = dataclasses.replace(context, progress=Progress(Console(stderr=True, width=500)))
        resolution, _ = resolve.resolve_with_users(dataclasses.replace(PLAN, user_packages=("mine==1.0",)), wide)

    assert "mine" in {file.name for file in resolution.artifacts}
    assert (f"has none of the packages: {address}" in capsys.readouterr().err) is not has_it


def test_a_page_has_an_end_after_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of a gigabyte of blanks in a page of JSON, in 260 kB."""
    bomb = gzip.compress(b"{" + b" " * (256 << 20))
    headers = {"Content-Type": JSON, "Content-Encoding": "gzip"}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(limits, "PAGE", Limit("", 8 << 20))

    with listening(lambda _: Reply(200, bomb, headers)) as host, pytest.raises(WorldFault, match="too long") as caught:
        index_pages.read_page(f"http://{host}/simple", "six", Sources())

    assert f"{host}/simple/six/" in caught.value.value
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


@pytest.mark.parametrize("kind", ["an index", "a page of links", "a directory", "a local index"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_of_a_lock_is_found_where_another_index_has_another_build_of_it(
    index: str, store: Store, tmp_path: Path, kind: str, *, is_first: bool
) -> None:
    """Of the same release, in each order of the indexes; of one with the same name, the sha256 decides."""
    wanted = tmp_path / "public/six-1.17.0-py3-none-any.whl"
    other = wheels.write(tmp_path / "other", "six", "1.17.0", {"six.py": b"ours"})
    (tmp_path / "simple/six").mkdir(parents=True)
    (tmp_path / "simple/six/index.html").write_text(f'<a href="{other.as_uri()}#sha256={"1" * 64}">{other.name}</a>')
    file = locks.artifact("six", "1.17.0", wanted.name, hashlib.sha256(wanted.read_bytes()).hexdigest())
    with listening(lambda asked: page(HTML, linked(other)) if "six" in asked.path else Reply(404)) as host:
        second = f"http://{host}/simple" if kind == "an index" else (tmp_path / "simple").as_uri()
        links = {"a page of links": (f"http://{host}/six.html",), "a directory": (str(other.parent),)}.get(kind, ())
        extra = () if links else (second,)
        sources = Sources(index=index, extra=extra, links=links)
        if is_first and extra:
            sources = Sources(index=second, extra=(index,))
        addresses = collect.find_addresses(locks.lock(), [file], locks.context(store, sources, os.environ))

    assert addresses == {wanted.name: f"{index.removesuffix('simple')}files/{wanted.name}"}


@pytest.mark.parametrize("has_it", [True, False])
def test_an_index_that_does_not_answer_is_named_where_the_file_is_nowhere_else(
    index: str, store: Store, tmp_path: Path, *, has_it: bool
) -> None:
    """What is known by its sha256 may come from anywhere; a place that fails is asked once."""
    digest = hashlib.sha256((tmp_path / "public/six-1.17.0-py3-none-any.whl").read_bytes()).hexdigest()
    file = locks.artifact("six", "1.17.0", "six-1.17.0-py3-none-any.whl", digest if has_it else "0" * 64)
    with listening(lambda asked: respond(asked, page(HTML, "", 403))) as host:
        context = locks.context(store, Sources(index=f"http://{host}/simple", extra=(index,)), os.environ)
        said = rf"files of the lock are missing: .*refuses the login: http://{host}/simple/six/ \(403\)"
        with nullcontext() if has_it else pytest.raises(WorldFault, match=said):
            assert collect.find_addresses(locks.lock(), [file], context)
