"""The only module that touches the network: files and answers by address, downloads into the store."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import requests

from images.host.errors import WorldFault
from images.host.store import CHUNK, Store, sha256

TIMEOUT = (10, 60)  # seconds: to connect, and between two reads
TRIES = 3
PATIENCE = 60.0  # seconds: a server that wants a longer pause is taken at its word, and the build ends
BUSY = (429, 500, 502, 503, 504)  # statuses after which the same question may get an answer
PAGE = 1 << 16  # bytes: of an answer that only explains an error, and of what is read at once

# A line that broke, in contrast to an address that nobody can ask.
CUT = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)

Advance = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How to go out: the file of trusted certificates (None: the usual ones), how to wait (seconds), what to try."""

    certificate: str | None = None
    wait: Callable[[float], None] = time.sleep
    remedy: str = "check the network and proxy settings (HTTPS_PROXY), or --registry-mirror HOST"


@dataclass(frozen=True)
class Answer:
    """What a server said; the names of `headers` may be asked in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


def fetch(store: Store, url: str, digest: str | None, name: str, certificate: str | None, advance: Advance) -> str:
    """Bring one file into the store and answer its sha256; a file that is there and undamaged is not fetched again.

    `digest` None means: whatever comes (an archive that nobody has pinned yet).
    Raises WorldFault when it cannot be had, is cut short, or is not what the digest says.
    """
    if digest and store.whole(digest, name):
        return digest
    with store.aside() as path:
        got = _copy(url, path, certificate, advance)
        if digest and got != digest:
            remedy = "run it again; if it stays so, the index or a proxy serves another file than the one it announced"
            raise WorldFault("a download has another sha256 than expected", f"{name}: {got}, not {digest}", remedy)
        store.keep(path, got, name)
    return got


def ask(
    url: str, headers: Mapping[str, str], reach: Reach, *, limit: int, form: Mapping[str, str] | None = None
) -> Answer:
    """Get what is at an address, or post a form to it; any status is an answer.

    A busy server is asked again, after the pause it wants (Retry-After: RFC 9110, 10.2.3).
    Raises WorldFault when nobody answers, or with more than `limit` bytes.
    """

    def attempt() -> Answer:
        with _opened(url, headers, reach, form) as got:
            return Answer(got.status_code, got.headers, _read(got, limit))

    return _persist(url, reach, attempt, lambda: 0)


def resume(
    store: Store, url: str, digest: str, size: int, headers: Mapping[str, str], reach: Reach, advance: Advance
) -> Answer:
    """Bring a blob of known sha256 and size (bytes) into the store; go on where this or an earlier build was cut.

    Answers status 200 when the blob is there, else what the server said instead.
    Raises WorldFault when nobody answers, or with something else than the digest says.
    """
    with store.unfinished(digest) as path:
        while store.blob(digest) is None:
            began = path.stat().st_size
            answer = _persist(
                url, reach, lambda: _append(url, path, size, headers, reach, advance), lambda: path.stat().st_size
            )
            if answer.status != 200:
                return answer
            if (got := sha256(path)) == digest:
                store.keep(path, digest)
                break
            path.write_bytes(b"")
            if not began:  # else what an earlier build left may have been damaged: once more, from the start
                remedy = "run it again; if it stays so, a proxy or the registry itself serves damaged data"
                raise WorldFault("a download has another sha256 than expected", f"{got}, not {digest}", remedy)
    return Answer(200, {})


def _append(
    url: str, path: Path, size: int, headers: Mapping[str, str], reach: Reach, advance: Advance
) -> Answer:  # fmt: skip
    have = path.stat().st_size
    if have >= size:
        return Answer(200, {})
    asked = {**headers, "Range": f"bytes={have}-"} if have else headers
    with _opened(url, asked, reach) as got:
        continued = got.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if got.status_code == 416 or (got.status_code == 206 and not continued):
            path.write_bytes(b"")
            raise requests.ConnectionError("the server does not continue a download")
        if got.status_code not in (200, 206):
            return Answer(got.status_code, got.headers, _read(got, PAGE))
        with path.open("ab" if got.status_code == 206 else "wb") as file:
            for chunk in got.iter_content(PAGE):  # what is cut within a chunk is lost
                file.write(chunk)
                advance(len(chunk))
                if file.tell() > size:
                    break
    if path.stat().st_size < size:
        raise requests.ConnectionError(f"cut short after {path.stat().st_size} of {size} bytes")
    return Answer(200, {})


def _opened(
    url: str, headers: Mapping[str, str], reach: Reach, form: Mapping[str, str] | None = None
) -> requests.Response:
    def signed(request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request  # the headers are complete: without an `auth`, requests would put those of ~/.netrc over them

    return requests.request(
        "POST" if form is not None else "GET", url, data=form, headers={"Accept-Encoding": "identity", **headers},
        auth=signed, stream=True, timeout=TIMEOUT, verify=reach.certificate or True,
    )  # fmt: skip


def _read(got: requests.Response, limit: int) -> bytes:
    body = b""
    for chunk in got.iter_content(PAGE):
        body += chunk
        if len(body) > limit:
            remedy = "check the address: what answers there is not what was expected"
            raise WorldFault("an answer is too long", f"{_shown(got.url)} (more than {limit} bytes)", remedy)
    return body


def _persist(url: str, reach: Reach, attempt: Callable[[], Answer], measure: Callable[[], int]) -> Answer:
    """Try until TRIES attempts in a row brought nothing; `measure` says how far it is."""
    best, failures = measure(), 0
    while True:
        cause: Exception | None = None
        pause = 0.5 * 2**failures
        try:
            answer = attempt()
            if answer.status not in BUSY:
                return answer
            pause = _wanted_pause(answer.headers.get("Retry-After", ""), pause)
        except CUT as error:
            cause = error
        except requests.RequestException as error:
            raise _unanswered(url, reach, error) from error
        failures = 1 if measure() > best else failures + 1
        best = max(best, measure())
        if failures >= TRIES or pause > PATIENCE:
            if cause:
                raise _unanswered(url, reach, cause) from cause
            return answer
        reach.wait(pause)


def _wanted_pause(header: str, otherwise: float) -> float:
    return float(header) if re.fullmatch(r"[0-9]{1,9}", header.strip()) else otherwise


def _unanswered(url: str, reach: Reach, error: Exception) -> WorldFault:
    return WorldFault("cannot download", f"{_shown(url)} ({_reason(error)})", reach.remedy)


def _shown(url: str) -> str:
    """Drop what may be secret from an address: user, password, and the signature in a query."""
    return without_secrets(url).partition("?")[0]


def without_secrets(url: str) -> str:
    """Drop user and password from an address before it is printed."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _copy(url: str, path: Path, certificate: str | None, advance: Advance) -> str:
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return _copy_local(Path(unquote(parts.path)), path, advance)
    for attempt in range(1, TRIES + 1):
        try:
            return _download(url, path, certificate, advance)
        except CUT as error:
            if attempt == TRIES:
                raise _unreachable(url, _reason(error)) from error
        except requests.HTTPError as error:
            raise _unreachable(url, str(error).partition(" for url")[0]) from error
        except requests.RequestException as error:
            raise _unreachable(url, _reason(error)) from error
    raise AssertionError("every attempt returns or raises")


def _download(url: str, path: Path, certificate: str | None, advance: Advance) -> str:
    digest = hashlib.sha256()
    seen = 0
    with requests.get(url, stream=True, timeout=TIMEOUT, verify=certificate or True) as answer, path.open("wb") as file:
        answer.raise_for_status()
        for chunk in answer.iter_content(CHUNK):
            file.write(chunk)
            digest.update(chunk)
            seen += len(chunk)
            advance(len(chunk))
        announced = answer.headers.get("Content-Length")
    if announced and "Content-Encoding" not in answer.headers and seen < int(announced):
        raise requests.ConnectionError(f"cut short after {seen} of {announced} bytes")
    return digest.hexdigest()


def _copy_local(source: Path, path: Path, advance: Advance) -> str:
    try:
        shutil.copyfile(source, path)
    except FileNotFoundError as error:
        raise WorldFault("no such file", source, "a path that exists, or an address") from error
    advance(path.stat().st_size)
    return sha256(path)


def _unreachable(url: str, why: str) -> WorldFault:
    remedy = "check the network and proxy settings (HTTPS_PROXY), or --wheelhouse DIR with the wheel in it"
    return WorldFault("cannot download", f"{without_secrets(url)} ({why})", remedy)


def _reason(error: Exception) -> str:
    """Take the innermost cause: the outer ones repeat the address."""
    cause: BaseException = error
    while cause.__context__ is not None:
        cause = cause.__context__
    said = str(cause).rpartition(": ")[2] or type(cause).__name__
    return re.sub(r"\?\S*", "", said)
