"""How long a busy server is waited for, who gets a login, and what comes of a file that is cut, long or another one."""

from __future__ import annotations

import base64
import gzip
import hashlib
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from http.client import BadStatusLine
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import requests
from urllib3 import HTTPResponse
from urllib3.exceptions import MaxRetryError, SSLError
from urllib3.util import Retry

from images.host import limits
from images.host.errors import Fault, UserFault, WorldFault
from images.host.limits import Limit
from images.pip_config import Sources
from images.store import download
from images.store.store import Store
from tests.support.web import Reply, Request, answered

SECONDS = limits.WINDOW


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_three_times(status: int) -> None:
    retry, waits = download.RETRY, list[float]()
    with pytest.raises(MaxRetryError):
        while retry.is_retry("GET", status):
            retry = retry.increment("GET", "/", HTTPResponse(status=status))
            waits.append(retry.get_backoff_time())

    assert waits == [0, 1]
    assert not any(download.RETRY.is_retry("GET", other) for other in (404, 501))
    with pytest.raises(MaxRetryError):  # a certificate is not trusted the next time either
        download.RETRY.increment("GET", "/", error=SSLError())


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("86400", 60)])
def test_a_server_is_waited_for_as_long_as_it_asks_up_to_a_minute(header: str, seconds: float) -> None:
    assert download.RETRY.parse_retry_after(header) == seconds


FOUR = hashlib.sha256(b"four").hexdigest()


@pytest.mark.parametrize("url", ["{}/a", "https://files.example/a"])
@pytest.mark.parametrize(("digest", "promised"), [(None, None), (FOUR, None), (FOUR, 3)])
def test_a_file_has_an_end_and_nothing_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, digest: str | None, promised: int | None
) -> None:
    monkeypatch.setattr(limits, "UNKNOWN", Limit("", 3))
    monkeypatch.setattr(limits, "KNOWN", Limit("", 4 if promised else 3))
    (tmp_path / "a").write_bytes(b"four")
    store = Store(tmp_path / "store")
    with answered(lambda _: Reply(200, b"four")), pytest.raises(WorldFault) as caught:
        download.download_file(store, url.format(tmp_path), digest, "a", Sources(), lambda _: None, promised)

    assert caught.value.kind == download.TOO_LONG
    assert not list((tmp_path / "store/aside").iterdir()) and not list((tmp_path / "store/blobs").iterdir())


@pytest.mark.parametrize(
    ("reads", "is_slow"),
    [
        ([(59, 1), (60, SECONDS * 4096)], False),
        ([(59, 1), (60, SECONDS * 4096 - 2)], True),
        ([(30, 1 << 20), (61, 1), (120, 1), (122, 1)], True),  # what came in an earlier window does not count
        ([(3600, 4096 * 3600)], False),  # the machine slept, or the build was stopped
        ([(1, 1), (2, 1)], False),
    ],
)
def test_a_download_has_a_least_speed(reads: list[tuple[float, int]], *, is_slow: bool) -> None:
    now = 0.0
    pace = download._Pace("http://host/a", lambda: now)
    with pytest.raises(WorldFault, match="too slow") if is_slow else nullcontext():
        for moment, size in reads:
            now = moment
            pace.count(size)


def test_a_file_of_this_machine_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"four")
    came = list[int]()

    assert download.download_file(Store(tmp_path), str(tmp_path / "a"), FOUR, "a", Sources(), came.append) == FOUR
    assert came == [4]


def test_a_device_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match="no such file"):
        download.download_file(Store(tmp_path), "file:///dev/zero", None, "a", Sources(), lambda _: None)


def test_the_innermost_cause_is_printed_without_secrets() -> None:
    try:
        try:
            raise OSError("no such name in http://user:secret@host/a?signature=secret now")
        except OSError as error:
            raise requests.ConnectionError("http://user:secret@host/a") from error
    except requests.ConnectionError as error:
        assert download.reason(error) == "no such name in http://host/a now"


@pytest.mark.parametrize(
    ("url", "is_trusted"),
    [
        ("https://trusted.example/x", True),
        ("https://TRUSTED.example:8443/x", True),
        ("https://trusted.example:x@other.example/x", False),
        ("https://trusted.example.other/x", False),
    ],
)
def test_a_trusted_host_is_no_user_of_another(url: str, is_trusted: bool) -> None:
    session = download.Session(Sources(trusted=("trusted.example",)))

    assert isinstance(session.get_adapter(url), download._Unverified) is is_trusted
    assert all(isinstance(session.get_adapter(one), download._Adapter) for one in (url, url.replace("https", "http")))


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (Sources(), {"proxies": {"https": "environment"}, "verify": "theirs", "cert": "mine"}),
        (Sources(proxy="http://p", certificate="/ca", client_certificate="/me"),
         {"proxies": {"http": "http://p", "https": "http://p"}, "verify": "/ca", "cert": "/me"}),
    ],
)  # fmt: skip
def test_pips_settings_come_before_those_of_the_environment(sources: Sources, expected: dict[str, object]) -> None:
    session = download.Session(sources)
    session.trust_env = False

    merged = session.merge_environment_settings("https://a", {"https": "environment"}, True, "theirs", "mine")

    assert {name: merged[name] for name in expected} == expected


@pytest.mark.parametrize(("error", "said"), [(TimeoutError(), "TimeoutError"), (OSError("full"), "full")])
def test_a_cause_without_words_is_named_by_its_kind(error: Exception, said: str) -> None:
    assert download.reason(error) == said


class Slow:
    """A connection whose answer, or error, comes when somebody hangs up, if it `is_late`."""

    def __init__(self, outcome: object, is_late: bool) -> None:
        self.outcome, self.is_late, self.ended = outcome, is_late, threading.Event()
        self.sock = SimpleNamespace(shutdown=lambda _: self.ended.set())

    def getresponse(self) -> object:
        assert not self.is_late or self.ended.wait(10)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class PromptSlow(download._Prompt, Slow):  # type: ignore[misc]  # its socket is none
    pass


@pytest.mark.parametrize(
    ("outcome", "is_late", "raised"),
    [
        (mock.Mock(), False, None),
        (mock.Mock(), True, TimeoutError),  # a head that is cut reads as a whole one
        (ConnectionResetError(), False, ConnectionResetError),
        (ConnectionResetError(), True, TimeoutError),
        (BadStatusLine(""), False, BadStatusLine),
        (BadStatusLine(""), True, TimeoutError),
    ],
)
def test_a_head_without_an_end_is_waited_for_as_long_as_for_a_slow_download(
    monkeypatch: pytest.MonkeyPatch, outcome: Any, is_late: bool, raised: type[Exception] | None
) -> None:
    if is_late:
        monkeypatch.setattr(limits, "WINDOW", 0.01)

    with pytest.raises(raised) if raised else nullcontext():
        assert PromptSlow(outcome, is_late).getresponse() is outcome
    assert not isinstance(outcome, mock.Mock) or outcome.close.called is is_late
    timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    assert all(one.finished.is_set() and one.daemon for one in timers)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_every_answer_is_of_a_prompt_connection(scheme: str) -> None:
    asked = requests.Request("GET", f"{scheme}://files.example/a").prepare()

    pool = download._Adapter().get_connection_with_tls_context(asked, True)

    assert issubclass(pool.ConnectionCls, download._Prompt) and pool.scheme == scheme


def test_certificates_of_a_trusted_host_are_not_looked_at() -> None:
    connection = SimpleNamespace()
    for adapter, needed in ((download._Adapter(), "CERT_REQUIRED"), (download._Unverified(), "CERT_NONE")):
        adapter.cert_verify(connection, "https://host/a", True, None)  # type: ignore[no-untyped-call]
        assert connection.cert_reqs == needed


URL = "https://files.example/a"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Wait for nothing between two attempts, and count how often there would have been a wait."""
    waits = list[int]()
    monkeypatch.setattr(Retry, "sleep", lambda *_: waits.append(1))
    download.session.cache_clear()
    return waits


@pytest.mark.parametrize(
    ("replies", "waits", "said"),
    [
        ([Reply(200, b"four")], 0, None),
        ([Reply(200, b"four", cut=2), Reply(200, b"four")], 1, None),
        ([Reply(200, b"longer", cut=5), Reply(200, b"four")], 1, None),  # nothing of the first attempt is left
        ([Reply(200, b"four", cut=3)] * 2 + [Reply(200, b"four", cut=4)], 2, None),
        ([Reply(200, b"four", cut=3)] * 3, 2, "cut short"),
        ([Reply(200, b"five")], 0, "another sha256"),
        ([Reply(404)], 0, "404"),
        ([Reply(500)], 0, "500"),
        ([None], 0, "hung up"),
    ],
)
def test_a_file_that_is_cut_is_fetched_again_from_its_beginning(
    tmp_path: Path, patient: list[int], replies: Sequence[Reply | None], waits: int, said: str | None
) -> None:
    store, left, came = Store(tmp_path), iter(replies), list[int]()
    with answered(lambda _: next(left)) as asked:
        if said is None:
            assert download.download_file(store, URL, FOUR, "a", Sources(), came.append) == FOUR
            assert store.place(FOUR, "a").read_bytes() == b"four"
            assert download.download_file(store, URL, FOUR, "a", Sources(), came.append) == FOUR
        else:
            with pytest.raises(WorldFault, match=said):
                download.download_file(store, URL, FOUR, "a", Sources(), came.append)
            assert not store.has(FOUR, 4)
    assert (len(asked), len(patient)) == (len(replies), waits), "what is there is not fetched again"
    assert {request.headers["Accept-Encoding"] for request in asked} == {"identity"}
    assert came == [reply.cut or 4 for reply in replies if reply and reply.status == 200]


@pytest.mark.parametrize(
    ("status", "is_login"), [(401, True), (403, True), (404, False), (410, False), (400, False), (407, False)]
)
def test_a_login_that_is_refused_is_no_other_failure(patient: list[int], status: int, is_login: bool) -> None:
    with answered(lambda _: Reply(status)), pytest.raises(Fault) as caught:
        download.download_document(URL, Limit("", 10), Sources(), lambda _: None)

    assert isinstance(caught.value, UserFault) is is_login
    assert caught.value.kind == (download.MOVED if status in (400, 403, 404, 410) else "")
    assert f"{status}" in caught.value.value


@pytest.mark.parametrize(("size", "fits"), [(9, True), (10, True), (11, False)])
def test_a_document_has_as_many_bytes_as_it_may(patient: list[int], size: int, fits: bool) -> None:
    with (
        answered(lambda _: Reply(200, bytes(size))),
        nullcontext() if fits else pytest.raises(WorldFault, match="too long"),
    ):
        assert download.download_document(URL, Limit("", 10), Sources(), lambda _: None) == bytes(size)


def test_a_file_is_kept_as_it_was_sent(patient: list[int]) -> None:
    packed = gzip.compress(b"text")
    with answered(lambda _: Reply(200, packed, {"Content-Encoding": "gzip"})):
        assert download.download_document(URL, Limit("", 99), Sources(), lambda _: None) == packed


@pytest.mark.parametrize(
    ("target", "netrc", "expected"),
    [
        ("", "", None),
        ("", "machine files.example login me password secret", "me:secret"),
        ("https://other.example/b", "machine files.example login me password secret", None),
        ("https://other.example/b", "machine other.example login you password other", "you:other"),
    ],
)
def test_a_login_is_for_its_own_host_after_a_redirect_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patient: list[int], target: str, netrc: str, expected: str | None
) -> None:
    def answer(request: Request) -> Reply:
        moved = target and request.target == URL
        return Reply(302, b"moved", {"Location": target}) if moved else Reply(200, b"text")

    (tmp_path / "netrc").write_text(netrc)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with answered(answer) as asked:
        assert download.download_document(URL, Limit("", 4), Sources(), lambda _: None) == b"text"

    login = f"Basic {base64.b64encode(expected.encode()).decode()}" if expected else None
    assert (asked[-1].target, asked[-1].headers.get("Authorization")) == (target or URL, login)
