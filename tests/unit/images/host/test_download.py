"""How long a busy server is waited for, and what of an address is printed."""

from __future__ import annotations

import pytest
import requests

from images.host import download


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("86400", 60), ("soon", 0), ("", 0), ("-5", 0)])
def test_a_server_is_waited_for_as_long_as_it_asks_up_to_a_minute(header: str, seconds: float) -> None:
    assert download.RETRY.parse_retry_after(header) == seconds


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:secret@host:8080/simple/?a=b", "https://host:8080/simple/?a=b"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("/a/directory", "/a/directory"),
        ("https://token@host/simple", "https://host/simple"),
        ("https://host/simple", "https://host/simple"),
    ],
)
def test_user_and_password_are_not_printed(url: str, shown: str) -> None:
    assert download.without_secrets(url) == shown


def test_the_innermost_cause_is_printed_without_secrets() -> None:
    try:
        try:
            raise OSError("no such name in http://user:secret@host/a?signature=secret now")
        except OSError as error:
            raise requests.ConnectionError("http://user:secret@host/a") from error
    except requests.ConnectionError as error:
        assert download.reason(error) == "no such name in http://host/a now"
