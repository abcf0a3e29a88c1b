"""The only module that downloads by itself (not by skopeo or uv): an address, or a path, into the store."""

from __future__ import annotations

import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from requests.utils import get_netrc_auth
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, InsecureRequestWarning, MaxRetryError, ProtocolError
from urllib3.util import Retry

from images.host import limits
from images.host.errors import UserFault, WorldFault, shown
from images.host.process import end_if_stopped
from images.pip_config import Sources, local_path, without_login
from images.store.blobs import CHUNK, copied, read_chunks
from images.store.store import Store

TIMEOUT = (10, 60)  # seconds: to connect, and between two reads


# A busy server or a broken connection gets three attempts, 0 and 1 seconds apart, or as far apart as the server asks by
# Retry-After (RFC 9110, 10.2.3), up to a minute. A certificate that is refused is not tried again (`other`).
RETRY = Retry(
    total=2, other=0, status_forcelist=(429, 500, 502, 503, 504), backoff_factor=0.5, retry_after_max=60,
    raise_on_status=False,
)  # fmt: skip

# What a server answers that wants a login, and to one whom it does not let in (RFC 9110, 15.5.2 and 15.5.4).
UNAUTHORIZED, FORBIDDEN = 401, 403
NOT_THERE = (400, FORBIDDEN, 404, 410)  # what it answers where there is no file, or where a signed address has expired
MOVED = "moved"  # the kind of such a fault: another address may have the file
TOO_LONG = "too long"  # the kind of a fault: there was an answer, and it is not what was asked for

# A redirect may name an address that is none, Retry-After a day that is in no calendar: errors of Python or of urllib3.
FAILED = (requests.RequestException, HTTPError, ValueError, OverflowError)

Advance = Callable[[int], None]


def download_file(
    store: Store, url: str, digest: str | None, name: str, sources: Sources, advance: Advance, most: int | None = None
) -> str:
    """Download one file into the store and return its sha256; a file that is there and undamaged is not fetched again.

    `url` may be a path. `digest` None accepts any content (an archive that nobody has pinned yet). `sources` say how
    servers are reached. `advance` is called with each count of bytes. `most` is the size in bytes that was promised;
    without one it is that of images/host/limits.py.
    Raises UserFault when the server wants another login, WorldFault when the file cannot be downloaded, is cut short,
    too long or too slow, or has another sha256.
    """
    if digest and store.verified(digest, name):
        return digest
    most = most or (limits.KNOWN if digest else limits.UNKNOWN).most
    with store.temporary() as path:
        with path.open("wb") as file:
            got = _copy(url, file, most, sources, advance)
        if digest and got != digest:
            remedy = "run it again; if it stays so, the index or a proxy serves another file than the one it announced"
            raise WorldFault("a download has another sha256 than expected", f"{name}: {got}, not {digest}", remedy)
        store.keep(path, got, name)
    return got


def download_document(url: str, limit: limits.Limit, sources: Sources, advance: Advance) -> bytes:
    """Return a document that is not kept; see `download_file`."""
    file = BytesIO()
    _copy(url, file, limit.most, sources, advance)
    return file.getvalue()


class _Login(AuthBase):
    """The login for the address that is asked for: pip's, or that of ~/.netrc."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        url = request.url or ""
        login = self._sources.login(url) or get_netrc_auth(url)
        return HTTPBasicAuth(login[0].encode(), login[1].encode())(request) if login else request


class _Prompt:
    """A connection that is closed where the head of an answer has no end: TIMEOUT is that of each byte of it."""

    sock: socket.socket
    _is_late = False

    def getresponse(self) -> Any:
        closing = threading.Timer(limits.WINDOW, self._hang_up)
        closing.daemon = True
        closing.start()
        try:
            answer = super().getresponse()  # type: ignore[misc]  # of the connection beside it
            if not self._is_late:
                return answer
            answer.close()  # its head was cut short, and reads as a whole one
        except (OSError, HTTPException):
            if not self._is_late:
                raise
        finally:
            closing.cancel()
        raise TimeoutError(f"no whole head of an answer in {limits.WINDOW} seconds")

    def _hang_up(self) -> None:
        self._is_late = True
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


class _PromptHTTP(_Prompt, HTTPConnection):
    pass


class _PromptHTTPS(_Prompt, HTTPSConnection):
    pass


class _Adapter(HTTPAdapter):
    """What sends requests, and tries again as RETRY says."""

    def __init__(self) -> None:
        super().__init__(max_retries=RETRY)

    def get_connection_with_tls_context(self, *given: Any, **named: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*given, **named)
        prompt = {HTTPConnection: _PromptHTTP, HTTPSConnection: _PromptHTTPS}  # not those to a proxy of the kind SOCKS
        pool.ConnectionCls = prompt.get(pool.ConnectionCls, pool.ConnectionCls)
        return pool


class _Unverified(_Adapter):
    """Connections to a host of pip's trusted-host; other hosts, also those of redirects, have another adapter."""

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        super().cert_verify(conn, url, False, cert)  # type: ignore[no-untyped-call]  # a method without annotations


class Session(requests.Session):
    """A session that reaches servers as pip would.

    It tries again where a server is busy or a connection breaks before its answer.
    """

    def __init__(self, sources: Sources) -> None:
        super().__init__()
        self._sources, self.auth = sources, _Login(sources)
        self.mount("http://", _Adapter())
        self.mount("https://", _Adapter())
        for host in sources.trusted:
            urllib3.disable_warnings(InsecureRequestWarning)
            for end in ("/", ":"):  # whatever its port, if none is named
                self.mount(f"https://{host}{end}", _Unverified())

    def get_adapter(self, url: Any) -> Any:
        """Choose by the host: requests compares the beginnings of addresses, where a user may be called like a host."""
        return super().get_adapter(without_login(url))

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Leave the body of a redirect unread: requests would read and unpack all of it, however long it is."""
        target: str | None = super().get_redirect_target(resp)
        if target:
            resp.raw.close()
        return target

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """Put pip's settings before those of the environment."""
        sources = self._sources
        proxies = dict.fromkeys(("http", "https"), sources.proxy) if sources.proxy else proxies
        verify, cert = sources.certificate or verify, sources.client_certificate or cert
        return super().merge_environment_settings(url, proxies, stream, verify, cert)


# One for all downloads: a connection for each costs a question to the name server, and an answer.
session = functools.cache(Session)


def login_fault(url: str, status: int, more: str = "") -> UserFault:
    """Return the fault of a server that wants a login, or another one; `more` is what else may be done."""
    remedy = "the right user and password in pip's index-url (https://USER:PASSWORD@HOST/...) or in ~/.netrc"
    kind = MOVED if status in NOT_THERE else ""
    return UserFault("a server refuses the login", f"{url} ({status})", f"{remedy}; keyrings are not asked{more}", kind)


def _copy(url: str, file: IO[bytes], most: int, sources: Sources, advance: Advance) -> str:
    """Copy what is at an address or a path into a file; return its sha256."""
    try:
        if place := local_path(url):
            return _copy_local(place, file, most, advance)
        return _download_to(url, file, most, sources, advance)
    except requests.HTTPError as error:
        status = error.response.status_code
        if status in (UNAUTHORIZED, FORBIDDEN):
            raise login_fault(error.response.url, status) from error
        raise _failed(url, error, MOVED if status in NOT_THERE else "") from error
    except FAILED as error:
        raise _failed(url, error) from error


def _failed(url: str, error: Exception, kind: str = "") -> WorldFault:
    remedy = "check the network and proxy settings (HTTPS_PROXY), or --wheelhouse DIR with the wheel in it"
    return WorldFault("cannot download", f"{url} ({reason(error)})", remedy, kind)


def _download_to(url: str, file: IO[bytes], most: int, sources: Sources, advance: Advance) -> str:
    """Download a file; after a cut connection begin again, as often as any request is retried."""
    retry, opened = RETRY, session(sources)
    while True:
        file.seek(0)
        file.truncate()
        with opened.get(url, headers={"Accept-Encoding": "identity"}, stream=True, timeout=TIMEOUT) as response:
            response.raise_for_status()
            try:
                return copied(pieces(response, most, advance, unpack=False), file.write)[0]
            except HTTPError as error:
                cut = ProtocolError(f"cut short: {reason(error)}")
                retry = retry.increment("GET", url, error=cut)
        retry.sleep()


def pieces(response: requests.Response, most: int, advance: Advance, *, unpack: bool) -> Iterator[bytes]:
    """Yield the body of an answer, as it was sent or, with `unpack`, without its Content-Encoding.

    Raises WorldFault where it has more than `most` bytes, or comes more slowly than images/host/limits.py allows.
    """
    size, pace = 0, _Pace(response.url)
    # Not until CHUNK is full, which a slow server may take hours for.
    while chunk := response.raw.read1(CHUNK, decode_content=unpack):
        end_if_stopped()
        size += len(chunk)
        _require_end(response.url, size, most)
        pace.count(len(chunk))
        advance(len(chunk))
        yield chunk


class _Pace:
    """How fast an answer comes: a limit between two reads alone would let one of a byte a minute go on for years."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url, self._clock, self._since, self._came = url, clock, clock(), 0

    def count(self, size: int) -> None:
        """Count bytes that came; raise WorldFault at the end of a window that had too few."""
        self._came += size
        if (passed := self._clock() - self._since) < limits.WINDOW:
            return
        if self._came < limits.SLOWEST * passed:
            value = f"{self._url} ({self._came} bytes in {passed:.0f} seconds, not {limits.SLOWEST} in each)"
            raise WorldFault("a download is too slow", value, "run it again; or another network, proxy or mirror")
        self._since, self._came = self._clock(), 0


def _require_end(place: object, size: int, most: int) -> None:
    if size > most:
        raise WorldFault("a download is too long", f"{place} (more than {most} bytes)", "another address", TOO_LONG)


def _copy_local(source: Path, file: IO[bytes], most: int, advance: Advance) -> str:
    if not source.is_file():  # a device may have no end
        raise WorldFault("no such file", source, "a path that exists, or an address")
    _require_end(source, source.stat().st_size, most)
    advance(source.stat().st_size)
    with source.open("rb") as opened:
        return copied(read_chunks(opened), file.write)[0]


def reason(error: Exception) -> str:
    """Return the innermost cause of a failed request in one line: the outer ones repeat the address."""
    if isinstance(error, requests.HTTPError):
        return str(error).partition(" for url")[0]
    if isinstance(error, MaxRetryError):
        return str(error.reason)
    cause: BaseException = error
    while cause.__context__ is not None:
        cause = cause.__context__
    return shown(str(cause)) or type(cause).__name__
