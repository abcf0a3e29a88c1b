"""How long a busy server is waited for, and who gets a login."""

from __future__ import annotations

import hashlib
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import requests

from images.host import limits
from images.host.errors import WorldFault
from images.host.limits import Limit
from images.pip_config import Sources
from images.store import download
from images.store.store import Store
from scripts.pages import reference

SECONDS = limits.WINDOW


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("86400", 60)])
def test_a_server_is_waited_for_as_long_as_it_asks_up_to_a_minute(header: str, seconds: float) -> None:
    assert download.RETRY.parse_retry_after(header) == seconds


FOUR = hashlib.sha256(b"four").hexdigest()


@pytest.mark.parametrize(("digest", "promised"), [(None, None), (FOUR, None), (FOUR, 3)])
def test_a_file_has_an_end_and_nothing_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str | None, promised: int | None
) -> None:
    monkeypatch.setattr(limits, "UNKNOWN", Limit("", 3))
    monkeypatch.setattr(limits, "KNOWN", Limit("", 4 if promised else 3))
    (tmp_path / "a").write_bytes(b"four")
    store = Store(tmp_path / "store")
    with pytest.raises(WorldFault) as caught:
        download.download_file(store, str(tmp_path / "a"), digest, "a", Sources(), lambda _: None, promised)

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


def test_the_page_has_the_limits_of_the_table() -> None:
    page = " ".join(Path("docs/security.md").read_text().split())
    made = "\n".join(reference.download_limits())
    rows = re.findall(r"(?m)^\| (.+) \| ([0-9]+) ([MG])iB \|$", made)

    assert {of: int(number) << {"M": 20, "G": 30}[unit] for of, number, unit in rows} == {
        limit.of: limit.most for limit in vars(limits).values() if isinstance(limit, Limit)
    }
    assert f"less than {limits.SLOWEST >> 10} KiB a second have come over {limits.WINDOW} seconds" in " ".join(
        page.split()
    )


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
    made = download.Session(Sources(trusted=("trusted.example",)))

    assert isinstance(made.get_adapter(url), download._Unverified) is is_trusted
