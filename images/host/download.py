"""The only module that touches the network: files and answers by address, downloads into the store."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import requests

from images.host.errors import WorldFault
from images.host.store import CHUNK, Store, sha256

TIMEOUT = (10, 60)  # seconds: to connect, and between two reads
TRIES = 3

# A line that broke, in contrast to an address that nobody can ask.
CUT = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)

Advance = Callable[[int], None]


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
