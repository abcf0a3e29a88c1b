"""What uv makes of package indexes that do not answer as one, on one page or on all."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from images.host import limits
from images.host.background import Progress
from images.host.errors import Fault, WorldFault
from images.host.limits import Limit
from images.lock import index_pages, resolve
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
LOGIN = """<html><body><h1>Sign in</h1><form action="/login"><input name="user"></form>
<a href="/reset">Forgot?</a> <a href="/help.zip">Help</a></body></html>"""


def page(kind: str, text: str, status: int = 200) -> Reply:
    return Reply(status, text.encode(), {"Content-Type": kind} if kind else {})


# Every kind of answer that is none is in tests/unit/images/lock/test_index_pages.py.
NO_ANSWERS = {
    "401": page(HTML, "", 401),
    "403": page("application/json", '{"message":"no"}', 403),
    "203": page(HTML, DECLARED, 203),
    "302 to a login": Reply(302, headers={"Location": "/login"}),
    "a login": page(HTML, LOGIN),
}


def respond(asked: Asked, odd: Reply, only: tuple[str, ...] = NAMES) -> Reply:
    """Answer with what is odd on some pages, and with 404 on others; one more page is where redirects lead."""
    if asked.path == "/login":
        return page(HTML, LOGIN)
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
@pytest.mark.parametrize("only", [("six",), NAMES])
@pytest.mark.parametrize("is_first", [True, False])
def test_no_package_comes_from_another_index_because_one_has_not_answered(
    index: str, store: Store, odd: Reply, only: tuple[str, ...], *, is_first: bool
) -> None:
    with listening(lambda asked: respond(asked, odd, only)) as host:
        private = f"http://{host}/simple"
        both = Sources(index=private, extra=(index,)) if is_first else Sources(index=index, extra=(private,))
        with pytest.raises(Fault) as caught:
            resolve.resolve_packages(PLAN, locks.context(store, both, os.environ))

    assert private in caught.value.value


def test_the_only_index_names_what_it_refuses_without_its_login(store: Store) -> None:
    with listening(lambda asked: respond(asked, page(HTML, "", 403))) as host, pytest.raises(Fault) as caught:
        sources = Sources(index=f"http://user:secret@{host}/simple")
        resolve.resolve_packages(PLAN, locks.context(store, sources, os.environ))

    assert caught.value.value.startswith(f"http://{host}/simple/") and caught.value.value.endswith("/ (403)")
    assert "secret" not in str(caught.value)


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
