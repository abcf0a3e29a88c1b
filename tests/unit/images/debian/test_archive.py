"""The index of an archive: whose it is, how old it may be, and what is done where a mirror fails."""

from __future__ import annotations

import datetime
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pysequoia
import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.context import Context
from images.debian import archive, packages
from images.debian.archive import Unverified, parse_release, verify_signature
from images.debian.deb import Deb
from images.host import limits
from images.host.errors import WorldFault
from images.host.limits import Limit
from images.pip_config import Sources
from images.platforms import AMD64, ARM64
from images.store.store import Store
from tests.support import locks
from tests.support.packages import WRITTEN, Archive, simple
from tests.support.web import Reply, Request, answered

DAY = datetime.date(2026, 1, 1)
SUITE = "bookworm"


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Write an archive, whose key counts."""
    debian = Archive(tmp_path / "debian")
    debian.write({"": [simple("apt", Depends="libc6"), simple("libc6", Essential="yes"), simple("tini")],
                "-security": [simple("libc6", version="9:1", Essential="yes")]})  # fmt: skip
    (tmp_path / "keyring").write_bytes(debian.keyring)
    monkeypatch.setattr(archive, "KEYRING", tmp_path / "keyring")
    return debian


def context(place: Path, uri: str, day: datetime.date = DAY) -> Context:
    usual = locks.context(Store(place / "store"), Sources(), {archive.VARIABLE: uri} if uri else {})
    return replace(usual, today=day)


def names(debs: tuple[Deb, ...]) -> dict[str, str]:
    return {deb.package: deb.version for deb in debs}


def test_a_base_gets_the_newest_of_what_it_needs(mirror: Archive, tmp_path: Path) -> None:
    at_hand = context(tmp_path, mirror.uri)

    chosen = packages.resolve_base(SUITE, ("tini",), AMD64, at_hand)

    assert names(chosen.debs) == {"apt": "1:2.0~rc1+deb12u1-3", "libc6": "9:1", "tini": "1:2.0~rc1+deb12u1-3"}
    assert [deb.filename for deb in chosen.debs][1] == "libc6_9%3a1_amd64.deb"
    assert (
        packages.list_missing_debs(at_hand.store, chosen.debs)
        == packages.list_unrecorded(at_hand.store, chosen.debs)
        == []
    )
    assert chosen.sources.count("deb http://") == 3 and str(tmp_path) not in chosen.sources
    assert names(packages.resolve_single(SUITE, ("tini",), AMD64, at_hand)) == {"tini": "1:2.0~rc1+deb12u1-3"}
    assert packages.resolve_single(SUITE, (), AMD64, context(tmp_path, "file:///nowhere")) == ()


def test_a_package_of_a_lock_is_brought_by_its_sha256(mirror: Archive, tmp_path: Path) -> None:
    [tini] = packages.resolve_single(SUITE, ("tini",), AMD64, context(tmp_path, mirror.uri))
    other = replace(tini, package="gone", sha256="0" * 64)
    empty = context(tmp_path / "other", mirror.uri)

    packages.download_packages(SUITE, (tini, other), AMD64, empty)

    assert (
        packages.list_missing_debs(empty.store, (tini, other))
        == packages.list_unrecorded(empty.store, (tini, other))
        == [other]
    )
    assert packages.require_package(empty.store, tini) == empty.store.place(tini.sha256, tini.filename)
    with pytest.raises(WorldFault, match="a package of Debian is missing: gone"):
        packages.require_package(empty.store, other)


def test_an_older_choice_is_better_than_none(mirror: Archive, tmp_path: Path) -> None:
    before = packages.resolve_base(SUITE, ("tini",), AMD64, context(tmp_path, mirror.uri))

    assert packages.resolve_base(SUITE, ("tini",), AMD64, context(tmp_path, "file:///nowhere")) == before
    with pytest.raises(WorldFault) as caught:
        packages.resolve_base(SUITE, ("tini",), AMD64, context(tmp_path / "empty", "file:///nowhere"))
    assert "/nowhere" in caught.value.value and archive.VARIABLE in caught.value.remedy


def test_a_mirror_without_a_good_signature_counts_nowhere(mirror: Archive, tmp_path: Path) -> None:
    packages.resolve_base(SUITE, ("tini",), AMD64, context(tmp_path, mirror.uri))
    place = mirror.place / f"dists/{SUITE}/InRelease"
    place.write_text(place.read_text().replace("Acquire-By-Hash: no", "Acquire-By-Hash: On"))

    with pytest.raises(Unverified, match="no good signature"):
        packages.resolve_base(SUITE, ("tini",), AMD64, context(tmp_path, mirror.uri))


def test_an_index_without_end_counts_nowhere_and_is_not_kept(
    mirror: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_hand = context(tmp_path, mirror.uri)
    packages.resolve_base(SUITE, ("tini",), AMD64, at_hand)
    monkeypatch.setattr(limits, "RELEASE", Limit("", 10))

    with pytest.raises(Unverified, match="too long for an index"):
        packages.resolve_base(SUITE, ("tini",), AMD64, at_hand)
    assert not list((tmp_path / "store/blobs").glob("*/InRelease"))


def dated(day: datetime.date) -> str:
    return f"Acquire-By-Hash: no\nDate: {day:%a, %d %b %Y} 00:00:00 UTC\n"


@pytest.mark.parametrize(
    ("days", "fact"),
    [
        (-900, "the index of Debian's mirror is older than one that was seen here"),
        (-2, "the index of Debian's mirror is older than one that was seen here"),
        (-1, None),
        (1, None),
        (2, "the index of Debian's mirror is of a day to come"),
        (9000, "the index of Debian's mirror is of a day to come"),
    ],
)
def test_there_is_no_way_back_in_time(
    mirror: Archive, tmp_path: Path, days: int, fact: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "may_expire", lambda: True)
    at_hand, rows = context(tmp_path, mirror.uri), {"": [simple("tini")]}
    mirror.write(rows, dated(DAY))
    packages.resolve_single(SUITE, ("tini",), AMD64, at_hand)
    mirror.write(rows, dated(DAY + datetime.timedelta(days)))

    try:
        packages.resolve_single(SUITE, ("tini",), AMD64, at_hand)
        said = None
    except Unverified as fault:
        said = fault.fact
    assert said == fact


def test_what_was_seen_is_forgotten_as_the_message_says(
    mirror: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "may_expire", lambda: True)
    at_hand, rows = context(tmp_path, mirror.uri), {"": [simple("tini")]}
    mirror.write(rows, dated(DAY))
    chosen = packages.resolve_single(SUITE, ("tini",), AMD64, at_hand)
    mirror.write(rows, dated(DAY - datetime.timedelta(9)))

    for _ in archive.PARTS:  # each of them has a day
        with pytest.raises(Unverified) as caught:
            packages.resolve_single(SUITE, ("tini",), AMD64, at_hand)
        Path(shlex.split(caught.value.remedy.rpartition(": rm ")[2])[0]).unlink()

    assert packages.resolve_single(SUITE, ("tini",), AMD64, at_hand) == chosen


def test_an_older_index_counts_for_a_lock_and_where_apt_takes_one(
    mirror: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_hand, rows = context(tmp_path, mirror.uri), {"": [simple("tini")]}
    mirror.write(rows, dated(DAY))
    [tini] = packages.resolve_single(SUITE, ("tini",), AMD64, at_hand)
    mirror.write(rows, dated(DAY - datetime.timedelta(900)))
    at_hand.store.drop(at_hand.store.place(tini.sha256, tini.filename))

    packages.download_packages(SUITE, (tini,), AMD64, at_hand)
    assert packages.list_missing_debs(at_hand.store, (tini,)) == []
    monkeypatch.setattr(archive, "may_expire", lambda: False)
    assert packages.resolve_single(SUITE, ("tini",), AMD64, at_hand) == (tini,)


def test_packages_come_by_https_and_an_image_has_the_mirrors_that_apt_has() -> None:
    assert {source.uri.partition(":")[0] for source in archive.choose_mirrors(SUITE, {})} == {"https"}
    domain = "debian.org"
    assert archive.format_sources(archive.list_sources(SUITE)) == (
        f"deb http://deb.{domain}/debian bookworm main\ndeb http://deb.{domain}/debian bookworm-updates main\n"
        f"deb http://security.{domain}/debian-security bookworm-security main\n"
    )
    assert [source.suite for source in archive.choose_mirrors(SUITE, {})] == [
        source.suite for source in archive.list_sources(SUITE)
    ]


def test_a_package_that_is_another_than_the_index_says_is_refused(mirror: Archive, tmp_path: Path) -> None:
    for path in (mirror.place / "pool").iterdir():
        path.write_bytes(path.read_bytes() + b"x")

    with pytest.raises(WorldFault, match="cannot download from Debian's mirror"):
        packages.resolve_single(SUITE, ("tini",), AMD64, context(tmp_path, mirror.uri))


def test_a_field_that_an_index_lacks_is_named() -> None:
    row = archive.Paragraph(SUITE, b"\nPackage: a\nSize: 1\n", 1, 19)

    assert (row["Package"], row.get("Version")) == ("a", "")
    with pytest.raises(WorldFault, match="bookworm: no Version in b'Package: a"):
        row["Version"]


def test_a_mirror_without_packages_for_a_machine_is_named(mirror: Archive, tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match=r"no packages for this: .*/dists/bookworm/main/binary-arm64"):
        packages.resolve_single(SUITE, ("tini",), ARM64, context(tmp_path, mirror.uri))


def test_what_does_not_go_together_is_said(mirror: Archive, tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match="there is no package nothing"):
        packages.resolve_base(SUITE, ("nothing",), AMD64, context(tmp_path, mirror.uri))


def test_a_list_that_is_longer_than_its_release_says_is_refused(mirror: Archive, tmp_path: Path) -> None:
    source, *_ = archive.choose_mirrors(SUITE, {archive.VARIABLE: mirror.uri})
    index = archive.fetch_index(source, "amd64", context(tmp_path, ""))

    assert len(list(index.rows())) == 3
    with pytest.raises(WorldFault, match="cannot be unpacked"):
        list(replace(index, size=index.size - 1).rows())


KEY, OTHER = (pysequoia.Tsk.generate(f"{name} <a@example.org>") for name in ("one", "other"))
TEXT = f"Codename: bookworm\n{WRITTEN}SHA256:\n " + "0" * 64 + " 12 main/binary-amd64/Packages.xz\n"
SIGNED = pysequoia.sign(KEY.signer(), TEXT.encode(), mode=pysequoia.SignatureMode.CLEAR)


@pytest.fixture(scope="module")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("keyring") / "keyring.gpg"
    place.write_bytes(bytes(KEY.extract_certificate()))
    return place


def test_only_what_is_signed_is_read(keyring: Path) -> None:
    assert verify_signature(SIGNED, keyring) == TEXT
    assert "Evil" not in verify_signature(b"Evil: yes\n\n" + SIGNED + b"\nEvil: yes\n", keyring)


@pytest.mark.parametrize(
    "signed",
    [
        TEXT.encode(),
        b"",
        b"<html>a login page</html>",
        SIGNED.replace(b" 12 ", b" 13 "),
        SIGNED[: SIGNED.index(b"-----BEGIN PGP SIGNATURE")],
        pysequoia.sign(OTHER.signer(), TEXT.encode(), mode=pysequoia.SignatureMode.CLEAR),
    ],
)
def test_what_is_not_signed_by_debian_is_refused(keyring: Path, signed: bytes) -> None:
    with pytest.raises(Unverified) as caught:
        verify_signature(signed, keyring)
    assert "clock" in caught.value.remedy


def test_the_keys_that_come_with_us_are_debians() -> None:
    users = {str(user) for key in pysequoia.Cert.split_bytes(archive.KEYRING.read_bytes()) for user in key.user_ids}

    assert any(re.search(r"Debian Security Archive Automatic Signing Key \(12/bookworm\)", user) for user in users)
    assert all(re.search(r"Debian .*@(?:lists\.)?debian\.org", user) for user in users)


UNTIL = "Valid-Until: Thu, 01 Jan 2026 00:34:33 UTC\n"


@pytest.mark.parametrize(
    ("text", "suite", "day", "said"),
    [
        (TEXT, "trixie", DAY, "another suite: bookworm, not trixie"),
        (TEXT, "bookworm-security", DAY, "another suite"),
        (UNTIL + TEXT, SUITE, DAY + datetime.timedelta(1), "expired"),
    ],
)
def test_an_index_of_another_suite_or_day_is_refused(text: str, suite: str, day: datetime.date, said: str) -> None:
    with pytest.raises(Unverified, match=said):
        parse_release(text, suite, day)


@given(st.text(), st.text(), st.text())
def test_no_release_is_too_much(until: str, date: str, rows: str) -> None:
    try:
        parse_release(f"Codename: {SUITE}\nValid-Until: {until}\nDate: {date}\nSHA256:\n {rows}\n", SUITE, DAY)
    except Unverified:
        pass


def test_files_are_known_by_name() -> None:
    for text, day, may_expire in (
        (TEXT, DAY, True),
        (UNTIL + TEXT, DAY, True),
        (UNTIL + TEXT, datetime.date.max, False),
    ):
        release = parse_release(text, SUITE, day, may_expire=may_expire)
        assert release.files == {"main/binary-amd64/Packages.xz": ("0" * 64, 12)}


@pytest.mark.parametrize(
    ("line", "may"),
    [
        ('// Acquire::Check-Valid-Until "false";', True),
        ('acquire::check-valid-until "false";', False),
        ('Acquire::Check-Valid-Until "true";', True),
    ],
)
def test_an_index_may_be_of_any_age_where_apt_says_so(line: str, may: bool, tmp_path: Path) -> None:
    assert archive.may_expire(tmp_path)
    (tmp_path / "apt.conf.d").mkdir()
    (tmp_path / "apt.conf.d/9any").write_bytes(b"# \xff\n" + f"{line}\n".encode())

    assert archive.may_expire(tmp_path) is may


def test_a_mirror_that_is_named_is_the_only_one() -> None:
    sources = archive.choose_mirrors(SUITE, {archive.VARIABLE: "http://mirror/debian/"})

    assert [source.uri for source in sources] == ["http://mirror/debian"] * 2 + ["http://mirror/debian-security"]
    assert archive.read_named({}) == archive.read_named({archive.VARIABLE: " "}) == ""


OLD = Deb("tini", "1:0.19-1+b2", "amd64", "tini.deb", "0" * 64)
FOUND = [{"architecture": "all", "hash": "ab1"}, {"architecture": "amd64", "hash": "cd2"}]


@pytest.mark.parametrize(
    ("status", "answer", "found"),
    [
        (200, {"result": FOUND}, {OLD: f"{archive.SERVER}/file/cd2"}),
        (200, {"result": FOUND[:1]}, {}),
        (200, {"result": [{"architecture": "amd64", "hash": "../x"}]}, {}),
        (200, {"result": [{}]}, {}),
        (404, {}, {}),
        (500, {}, None),
    ],
)
def test_a_package_that_a_mirror_has_no_more_is_found_by_its_version(
    tmp_path: Path, status: int, answer: dict[str, Any], found: dict[Deb, str] | None
) -> None:
    """None is found where the server does not work."""
    tini, other = (f"{archive.SERVER}/mr/binary/{name}/1%3A0.19-1%2Bb2/binfiles" for name in ("tini", "other"))
    next_one = replace(OLD, package="other")

    def reply(request: Request) -> Reply:
        said = (status, answer) if request.target == tini else (200, {"result": FOUND})
        return Reply(said[0], json.dumps(said[1]).encode())

    with answered(reply) as asked:
        places = archive.places([OLD, next_one], locks.context(Store(tmp_path), Sources(), {}))
    assert places == ({} if found is None else {**found, next_one: f"{archive.SERVER}/file/cd2"})
    assert [request.target for request in asked] == [tini, *[other] * (found is not None)]
