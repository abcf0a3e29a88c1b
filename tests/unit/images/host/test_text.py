"""What is printed of an address, and of a long text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import shortened, shown


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("https://user:secret@host:8080/simple/?a=b", "https://host:8080/simple/"),
        ("'https://host/x.tar.gz?X-Amz-Signature=secret#secret'", "'https://host/x.tar.gz'"),
        ("https://user:se/cr@et@host/x is absent", "https://host/x is absent"),
        ("https://user:secret'@host/x", "https://host/x"),
        ("https://token@host/simple", "https://host/simple"),
        ("no /srv/https:/user:secret@host", "no /srv/https:/host"),
        ("https://:secret@host/simple", "https://host/simple"),
        ("ssh://user:secret@host", "ssh://host"),
        ("user:secret@host/x:1", "host/x:1"),
        ("A=https://USER:PASSWORD@HOST:PORT", "A=https://USER:PASSWORD@HOST:PORT"),  # as remedies have it
        ("'user:secret@host/x' in 'user:secret@host/x'", "'host/x' in 'host/x'"),
        ("no answer for /a?signature=secret", "no answer for /a"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("https://[::1]:5000/a", "https://[::1]:5000/a"),
        ("docker://host:5000/name@sha256:12", "docker://host:5000/name@sha256:12"),
        ("name:tag@sha256:12 and oci:place@x:tag", "name:tag@sha256:12 and oci:place@x:tag"),
        ("?narrow(?or(x)), what?", "?narrow(?or(x)), what?"),
        ("/a/directory", "/a/directory"),
        ("two\nlines\x1b[31m \udcff \x00 \u202e", r"two\nlines\x1b[31m \udcff \x00 \u202e"),
        ("l\u00e9gal \u661f", "l\u00e9gal \u661f"),
    ],
)
def test_a_text_is_printed_without_secrets_and_control_characters(text: str, printed: str) -> None:
    assert shown(text) == printed


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1))
def test_no_password_is_printed(word: str) -> None:
    secret = f"se.{word}.cret"
    for text in (f"https://u:{secret}@h/x", f"'u:{secret}@h/x'", f"https://h/x?sign={secret}", f"/x?sign={secret}"):
        assert secret not in shown(text)


@pytest.mark.parametrize(
    ("text", "short"),
    [("", ""), ("0123456789", "0123456789"), ("0123456789a", "01 ... 9a"), ("begin" * 99 + "end", "be ... nd")],
)
def test_of_a_long_text_beginning_and_end_are_left(text: str, short: str) -> None:
    assert shortened(text, 10) == short
