"""What a package index says of a project: a page of the simple API (PEP 503, PEP 691), or that it has none (404).

Anything else is no answer: a refusal, a page of a proxy or of a login. Whoever takes it for "not here" takes the
package from another index, where anybody can have its name.
"""

from __future__ import annotations

import datetime
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from email.message import Message
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import requests
from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from images.foreign import documents
from images.host import limits
from images.host.background import background
from images.host.errors import WorldFault
from images.lock.lock import Artifact
from images.pip_config import TRUST, Sources, local_path, without_login
from images.plan import packages
from images.plan import requirements as users
from images.plan.plan import Plan
from images.plan.planner import FAMILY
from images.store import download

LOGIN = (401, 403, 407)  # a server, or a proxy, wants a login or another one (RFC 9110, 15.5)
NOT_THERE = 404
# Two indexes are stores of files that answer 403 where there is none: PyTorch's, as uv's documentation says ("Ignoring
# error codes when searching across indexes"), and Intel's, of which uv says so too (astral-sh/uv#14576).
STORES = ("download.pytorch.org", "pytorch-extension.intel.com")
HTML, JSON = ("text/html", "application/vnd.pypi.simple.v1+html"), "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{JSON}, {HTML[1]};q=0.2, {HTML[0]};q=0.01"
ENDS = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz", ".egg", ".exe")  # of files of PyPI in all its years
ATTRIBUTES, VERSION = ("href", "name", "content", "data-yanked"), "pypi:repository-version"  # PEP 503, 592, 629
TITLE = re.compile(r"<(?:title|h1)\b[^<>]*>[^<>]{0,200}\blinks for\s+([\w.-]+)\s*<", re.IGNORECASE)
CHARSETS = ("us-ascii", "iso-8859-1", "windows-1252")  # beside UTF-8: some others take time by the square of a text
MOST_TAGS = 200_000  # of a page in HTML, which has two for each file
AT_ONCE = 8  # pages: a server is waited for more than there is to do
ONE_PARSED = Lock()  # at a time: it takes some ten times the bytes of a page, and no longer than with others beside it
REACH = f"check the network, the proxy (HTTPS_PROXY), pip's index-url and its login; {TRUST}; or --wheelhouse DIR"
# What a store of files answers where there is none, unless whoever asks may list it (S3, "GetObject": permissions).
STORE = "; where a store of files is the index: allow s3:ListBucket, so that it answers 404 for what is not there"
ANSWER = "the right address and login in pip's index-url or extra-index-url, or the proxy; or take the index out there"


class PageFile(NamedTuple):
    """A file of a project; `sha256` is None where the index announces another hash, or none.

    `uploaded` is when that was (ISO 8601, UTC), None where the index does not say it.
    """

    name: str
    url: str
    sha256: str | None
    uploaded: str | None = None
    yanked: bool = False


class IndexAnswer(NamedTuple):
    """What an index has answered: a page, its Content-Type (empty: none), and the address that it came from."""

    body: bytes
    content_type: str
    base: str


class Page(NamedTuple):
    """The files of a project; their addresses may be relative to `base`."""

    base: str
    files: tuple[PageFile, ...]

    def address(self, wanted: Artifact) -> str | None:
        """Return where a file of a lock is, by its sha256.

        One of which no sha256 is announced is known by its name; its sha256 is checked when it is there.
        """
        known = {file.sha256 or file.name: file.url for file in self.files}
        url = known.get(wanted.sha256) or known.get(wanted.filename)
        return urljoin(self.base, url) if url else None


def list_indexes(sources: Sources) -> list[str]:
    """Return all indexes in order: those of pip's configuration, or pip's default."""
    from pypi_simple import PYPI_SIMPLE_ENDPOINT  # it brings an HTML parser, which no build needs

    return [] if sources.no_index else [sources.index or PYPI_SIMPLE_ENDPOINT, *sources.extra]


def list_addresses(sources: Sources) -> tuple[str, ...]:
    """Return the indexes and pages of links that are asked, without logins, but for those of this machine."""
    places = (*list_indexes(sources), *sources.links)
    return tuple(dict.fromkeys(without_login(place).rstrip("/") for place in places if local_path(place) is None))


def having(pages: Iterable[tuple[str, str]], sources: Sources) -> set[str]:
    """Ask for pages, as (index, project); return the indexes that have any of them.

    Raises a Fault that names the first one, in this order, that is no answer.
    """
    with background(AT_ONCE) as start:
        tasks = [(index, start(partial(_is_there, index, name, sources))) for index, name in pages]
        return {index for index, has_page in tasks if has_page.result()}


def _is_there(index: str, name: str, sources: Sources) -> bool:
    """Return whether an index has a page, of which nothing is kept: all of a question may be some hundred."""
    return read_page(index, name, sources) is not None


def has_root(index: str, sources: Sources) -> bool:
    """Return whether an index answers for itself: one that does not may have none, or not know whoever asks.

    GitLab says 404 where there is no login. Raises WorldFault where it cannot be reached.
    """
    if place := local_path(index):
        return place.is_dir()
    url, session = f"{index.rstrip('/')}/", download.session(sources)
    if urlsplit(url).hostname in STORES:
        return True
    try:
        with session.get(url, headers={"Accept": ACCEPT}, stream=True, timeout=download.TIMEOUT) as answer:
            return bool(answer.status_code == requests.codes.ok)
    except download.FAILED as error:
        raise WorldFault("cannot reach a package index", f"{url} ({download.reason(error)})", REACH) from error


def read_page(index: str, name: str, sources: Sources) -> Page | None:
    """Return the page of a project, None where an index says that it has none.

    Raises UserFault where the login is refused, WorldFault where the index cannot be reached, or does not answer as an
    index.
    """
    if place := local_path(index):
        return _read_local(place / canonicalize_name(name) / "index.html", name)
    return _request_page(f"{index.rstrip('/')}/{canonicalize_name(name)}/", name, sources)


def read_links(url: str, sources: Sources) -> Page | None:
    """Return the files that a page of pip's find-links names, of any project; see `read_page`."""
    return _request_page(url, "", sources)


def _request_page(url: str, name: str, sources: Sources) -> Page | None:
    answer = request_answer(url, sources)
    return _parse_page(answer, url, name) if answer else None


def request_answer(url: str, sources: Sources) -> IndexAnswer | None:
    """Return what is at an address of an index, None where it says that nothing is; see `read_page`."""
    session, headers = download.session(sources), {"Accept": ACCEPT}
    try:
        with session.get(url, headers=headers, stream=True, timeout=download.TIMEOUT) as answer:
            if answer.status_code in _absences(url):
                return None
            if answer.status_code in LOGIN:
                more = STORE if answer.status_code == requests.codes.forbidden else ""
                raise download.login_fault(url, answer.status_code, more)
            if answer.status_code != requests.codes.ok:
                raise _no_answer(url, f"{answer.status_code} {answer.reason or ''}".strip())
            body = b"".join(download.pieces(answer, limits.PAGE.most, lambda _: None, unpack=True))
            return IndexAnswer(body, answer.headers.get("Content-Type", ""), answer.url)
    except download.FAILED as error:
        raise WorldFault("cannot reach a package index", f"{url} ({download.reason(error)})", REACH) from error


def _absences(url: str) -> Collection[int]:
    return (NOT_THERE, requests.codes.forbidden) if urlsplit(url).hostname in STORES else (NOT_THERE,)


def _no_answer(url: str, why: str) -> WorldFault:
    return WorldFault("an index does not answer as a package index", f"{url} ({why})", ANSWER)


def _read_local(path: Path, name: str) -> Page | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return _parse_page(IndexAnswer(file.read(limits.PAGE.most), HTML[0], path.as_uri()), str(path), name)


def _parse_page(answer: IndexAnswer, url: str, name: str) -> Page:
    body, content_type, base = answer
    message = Message()
    message["Content-Type"] = content_type
    kind = message.get_content_type() if content_type else "no Content-Type"
    came = f"{kind} from {without_login(base)}"
    try:
        with ONE_PARSED:
            if kind == JSON:
                return Page(base, tuple(_in_json(documents.parse_json(body))))
            if kind in HTML:
                return _in_html(body, base, message.get_content_charset(), name, declared=kind == HTML[1])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _no_answer(url, f"{came}: {error}") from error
    raise _no_answer(url, came)


def _in_json(page: Any) -> Iterator[PageFile]:
    """Yield the files of a page in JSON; raise an error of Python's for what is no such page."""
    if not str(page["meta"]["api-version"]).startswith("1."):
        raise ValueError(f"version {page['meta']['api-version']!r} of the simple API")
    for file in page["files"]:
        sha256, uploaded = _normalize_sha256(file["hashes"].get("sha256")), file.get("upload-time")
        yield PageFile(
            str(file["filename"]), str(file["url"]), sha256, str(uploaded) if uploaded else None,
            file.get("yanked", False) is not False,
        )  # fmt: skip


def _in_html(body: bytes, base: str, charset: str | None, name: str, *, declared: bool) -> Page:
    """Return the files of a page in HTML.

    It names a file of its project, or says that it is a page of an index (PEP 629) or of the links for its project;
    else LookupError is raised: a page of a login, too, has links.
    """
    if len(body) > limits.HTML.most:
        raise ValueError(f"more than {limits.HTML.most} bytes of HTML")
    text, files, is_page = body.decode(charset if charset in CHARSETS else "utf-8", "replace"), [], declared
    for number, (tag, attributes) in enumerate(documents.list_elements(text, ATTRIBUTES)):
        if number > MOST_TAGS:
            raise ValueError(f"more than {MOST_TAGS} tags")
        if tag == "base" and attributes.get("href"):
            base = urljoin(base, attributes["href"].strip())
        elif tag == "meta" and attributes.get("name") == VERSION:
            is_page = _require_api_version(attributes.get("content", ""))
        elif tag == "a" and "href" in attributes:
            file = _linked(urljoin(base, attributes["href"].strip()), yanked="data-yanked" in attributes)
            files += [file] if _is_of(file.name, name) else []
    if not (files or is_page or _is_titled(text, name)):
        raise LookupError(f"no file of {name or 'a package'}")
    return Page(base, tuple(files))


def _require_api_version(stated: str) -> bool:
    """Return True for a version of the simple API that is read; raise ValueError for a later one."""
    if not stated.startswith("1."):
        raise ValueError(f"version {stated!r} of the simple API")
    return True


def _is_titled(text: str, name: str) -> bool:
    """Return whether a page is headed as indexes head that of a project, such as devpi and PyPI's own."""
    return any(canonicalize_name(title[1]) == canonicalize_name(name) for title in TITLE.finditer(text))


def _linked(url: str, *, yanked: bool) -> PageFile:
    """Return the file of a link, which is called as its address says: the text may be shortened."""
    parts = urlsplit(url)
    algorithm, _, digest = parts.fragment.partition("=")
    name, sha256 = unquote(posixpath.basename(parts.path)), digest if algorithm == "sha256" else None
    return PageFile(name, parts._replace(fragment="").geturl(), _normalize_sha256(sha256), yanked=yanked)


def _normalize_sha256(value: object) -> str | None:
    """Return a sha256 as locks have it, in small letters."""
    return str(value).lower() if value else None


def _is_of(file: str, name: str) -> bool:
    start = f"{canonicalize_name(name)}-" if name else ""
    return file.endswith(ENDS) and canonicalize_name(file).startswith(start)


# The newest releases that the user's lines allow, whether an image can have them or not.


def find_newest(plan: Plan, sources: Sources) -> dict[str, Version]:
    """Return the newest release, as of the day, of each of the user's packages that has a choice of them.

    Raises a Fault for an index that does not answer.
    """
    wanted = [one for one in map(users.parse_line, plan.user_packages) if not one.bounds]
    here = [one for one in wanted if packages.applies(one.requirement, plan.python, plan.platform)]
    exact = {one.name for one in here if users.is_exact(one.requirement)}
    stated: dict[str, list[Requirement]] = {}
    for one in here:
        if one.name not in exact:
            stated.setdefault(one.name, []).append(one.requirement)
    places = [(name, index) for name in stated for index in list_indexes(sources)]
    newest: dict[str, Version] = {}
    with background(AT_ONCE) as start:
        tasks = [
            (name, start(partial(_read_newest, index, name, stated[name], plan, sources))) for name, index in places
        ]
        for name, task in tasks:
            if version := task.result():
                newest[name] = max(version, newest.get(name, version))
    return newest


def day_of(name: str, plan: Plan) -> datetime.date:
    """Return the day as of which a package is resolved."""
    return plan.family_as_of if canonicalize_name(name) in FAMILY else plan.as_of


def _read_newest(index: str, name: str, stated: Sequence[Requirement], plan: Plan, sources: Sources) -> Version | None:
    """Return the newest release of a page that lines allow, of which no more is kept."""
    page = read_page(index, name, sources)
    return max(_list_versions(page.files, stated, plan), default=None) if page else None


def _list_versions(files: Sequence[PageFile], stated: Sequence[Requirement], plan: Plan) -> Iterator[Version]:
    """Yield the releases that lines allow, but no build, preview or withdrawn one.

    Of a file whose day is not known uv takes none as of a day.
    """
    for file in files:
        version = _version_of(file.name)
        is_late = file.uploaded is None or file.uploaded[:10] > str(day_of(stated[0].name, plan))
        if version is None or version.is_prerelease or version.local or file.yanked or is_late:
            continue
        if all(requirement.specifier.contains(version) for requirement in stated):
            yield version


def _version_of(filename: str) -> Version | None:
    parse = parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename
    try:
        return parse(filename)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):  # also for a version that is none
        return None
