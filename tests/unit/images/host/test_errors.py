"""What is printed of an address, and the form of every message."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import (
    Damaged,
    Fault,
    UserFault,
    WorldFault,
    or_else,
    require_programs,
    require_room,
    require_text,
    shortened,
    shown,
)


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


@given(st.text(), st.text(), st.text())
def test_a_message_has_two_lines_whatever_the_value(fact: str, value: str, remedy: str) -> None:
    first, second = str(UserFault(fact, value, remedy)).split("\n")

    assert first.startswith("error: ") and second.startswith("  try: ")


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1))
def test_no_password_is_printed(word: str) -> None:
    secret = f"se.{word}.cret"
    for text in (f"https://u:{secret}@h/x", f"'u:{secret}@h/x'", f"https://h/x?sign={secret}", f"/x?sign={secret}"):
        assert secret not in shown(text)


@pytest.mark.parametrize(
    ("blocks", "free", "is_full"),
    [(1000, 0, True), (1000, 15, True), (1000, 16, False), (0, 0, False)],  # the last says nothing of itself
)
def test_a_full_disk_is_seen(monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, is_full: bool) -> None:
    disk = SimpleNamespace(f_blocks=blocks, f_bfree=free, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)

    if is_full:
        with pytest.raises(WorldFault, match="No space left on device"):
            require_room(Path("/store"))
    else:
        require_room(Path("/store"))


@pytest.mark.parametrize(("flags", "fits"), [(os.ST_NOEXEC | os.ST_NOSUID, False), (os.ST_NOSUID, True)])
def test_a_disk_that_lets_no_program_start_is_named(monkeypatch: pytest.MonkeyPatch, flags: int, fits: bool) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))

    if fits:
        require_programs(Path("/hard"), "the store", "another")
        return
    with pytest.raises(WorldFault) as caught:
        require_programs(Path("/hard"), "the store", "another")
    assert str(caught.value) == "error: programs cannot be started in the store: /hard (noexec)\n  try: another"


@pytest.mark.parametrize(
    ("text", "short"),
    [("", ""), ("0123456789", "0123456789"), ("0123456789a", "01 ... 9a"), ("begin" * 99 + "end", "be ... nd")],
)
def test_of_a_long_text_beginning_and_end_are_left(text: str, short: str) -> None:
    assert shortened(text, 10) == short


@pytest.mark.parametrize("kind", [UserFault, WorldFault])
def test_a_caller_adds_another_way(kind: type[Fault]) -> None:
    with pytest.raises(kind) as caught, or_else("--examples none"):
        raise kind("cannot download the examples", "x.tar", "--examples PATH")
    assert caught.value.remedy == "--examples PATH; or --examples none"


def test_a_fault_with_another_way_stays_what_it_was() -> None:
    with pytest.raises(Damaged, match=r"the same command again; or --base debian") as caught, or_else("--base debian"):
        raise Damaged("/store/blobs/x")
    assert caught.value.value == "/store/blobs/x"


@pytest.mark.parametrize(
    ("value", "fact", "remedy"),
    [
        ("M\udcc3\udcbcller", "the locale has no UTF-8: XDG Müller", "unset PYTHONUTF8, or LC_ALL=C.UTF-8"),
        ("M\udcfcller", "that is not UTF-8: XDG M", "a name in UTF-8, such as that of a link (ln -s)"),
        ("\u661f\udcff", "that is not UTF-8: XDG \u661f", "a name in UTF-8, such as that of a link (ln -s)"),
        ("Müller \u661f", None, None),
    ],
)
def test_a_name_that_is_not_utf8_is_told_from_one_that_the_locale_cannot_read(
    value: str, fact: str | None, remedy: str | None
) -> None:
    if fact is None:
        require_text(value, value)
        return
    with pytest.raises(UserFault) as caught:
        require_text(value, f"XDG {value}")
    assert str(caught.value).startswith(f"error: {fact}") and caught.value.remedy == remedy
