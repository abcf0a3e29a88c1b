"""The form of every message."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import UserFault, require_text, shortened, shown, system_fault


@given(st.text(), st.text(), st.text())
def test_a_message_has_two_lines_whatever_the_value(fact: str, value: str, remedy: str) -> None:
    first, second = str(UserFault(fact, value, remedy)).split("\n")

    assert first.startswith("error: ") and second.startswith("  try: ")
    assert len(UserFault(fact, f"{value}{'x' * 9999}", remedy).value) == 3999


@pytest.mark.parametrize("value", ["M\udcc3\udcbcller", "M\udcfcller", "\u661f\udcff"])
def test_a_name_that_is_not_utf8_is_refused(value: str) -> None:
    require_text("Müller \u661f", "")
    with pytest.raises(UserFault, match="that is not UTF-8: XDG"):
        require_text(value, f"XDG {value}")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENAMETOOLONG, 2), (errno.ENOTDIR, 2), (errno.EISDIR, 2), (errno.ELOOP, 2),
        (errno.ENOSPC, 1), (errno.EACCES, 1), (errno.EPIPE, 1), (errno.EIO, 1),
    ],
)  # fmt: skip
def test_a_name_that_no_file_can_have_is_the_users_mistake(number: int, code: int) -> None:
    fault = system_fault(OSError(number, os.strerror(number), "/a/b"))

    assert (fault.exit_code, fault.value, bool(fault.remedy)) == (code, "/a/b", True)


# What is printed of an address, and of a long text.


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
        ("oci:place@x:tag@y", "oci:place@x:tag@y"),
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
