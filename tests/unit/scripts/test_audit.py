"""What an audit finds in a lock: of Python packages and of Debian's."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from images.host import process
from images.host.errors import UserFault, WorldFault
from images.lock import lockfile
from images.store.store import Store
from scripts import program
from scripts.audit import __main__ as audit
from scripts.audit import of_debian, of_python
from scripts.audit.__main__ import ALLOWED
from scripts.audit.findings import Finding, read_allowed, without_allowed
from tests.support import locks

DAY = datetime.date(2026, 11, 26)
ROW = """
[[allow]]
id = "CVE-2026-1"
package = "openssl"
reason = "only of a server"
until = 2026-11-26
"""
OPENSSL = Finding("openssl", "3.0", ("DSA-1", "CVE-2026-1"), None)


def write(place: Path, text: str) -> Path:
    place = place / "allowed.toml"
    place.write_text(text)
    return place


@pytest.mark.parametrize(
    ("finding", "covered"),
    [
        (OPENSSL, True),
        (Finding("openssl", "3.0", ("CVE-2026-2",), None), False),
        (Finding("zlib", "1", ("CVE-2026-1",), None), False),
    ],
)
def test_a_row_covers_a_vulnerability_of_a_package_to_its_last_day(
    tmp_path: Path, finding: Finding, covered: bool
) -> None:
    rows = read_allowed(write(tmp_path, ROW), DAY)

    assert without_allowed([finding], rows) == (([], []) if covered else ([finding], list(rows)))


def test_a_row_that_has_expired_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserFault) as caught:
        read_allowed(write(tmp_path, ROW), DAY + datetime.timedelta(days=1))

    assert caught.value.value == "CVE-2026-1 of openssl until 2026-11-26 (only of a server)"
    assert "remove the row" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (ROW.replace("reason", "why"), "allow.0.reason"),
        (ROW.replace('"only of a server"', '" "'), "allow.0.reason"),
        (ROW.replace("2026-11-26", '"soon"'), "allow.0.until"),
        (f"{ROW}severity = 1\n", "allow.0.severity"),
        (ROW.replace("[[allow]]", "[[allowed]]"), "allowed Extra"),
        ("[[allow]]", "allow.0.id"),
        ("allow = 1", "allow"),
        ("allow", "Expected '='"),
    ],
)
def test_a_list_with_faults_is_refused(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(UserFault) as caught:
        read_allowed(write(tmp_path, text), DAY)

    assert where in caught.value.value


def test_no_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserFault, match="No such file"):
        read_allowed(tmp_path / "none.toml", DAY)


def test_our_own_list_can_be_read() -> None:
    assert read_allowed(ALLOWED, datetime.date.min) is not None


SUITE, HERE = "bookworm", "3.0.15-1~deb12u1"
NEWER, OLDER = "3.0.15-1~deb12u2", "3.0.15-1"  # a ~ comes before the end


def tracker(**release: str) -> dict[str, Any]:
    """Write an issue of openssl in this suite, as security-tracker.debian.org/tracker/data/json has it."""
    return {
        "openssl": {
            "CVE-2026-1": {
                "description": "…",
                "scope": "remote",
                "releases": {
                    SUITE: {"repositories": {SUITE: HERE}, **release},
                    "sid": {"status": "resolved", "fixed_version": "3.6.0-1", "urgency": "high"},
                },
            }
        }
    }


@pytest.mark.parametrize(
    ("urgency", "with_fix", "still_open"),
    [
        ("high", True, True),
        ("high**", True, True),  # by the NVD
        ("end-of-life", True, True),
        ("not yet assigned", True, False),
        ("a new word", True, False),
        ("medium", False, False),
        ("low", False, False),
        ("unimportant", False, False),
    ],
)
def test_what_counts_by_urgency(urgency: str, with_fix: bool, still_open: bool) -> None:
    fixed = tracker(status="resolved", fixed_version=NEWER, urgency=urgency)
    unfixed = tracker(status="open", urgency=urgency)

    findings = of_debian.find_in_debian(fixed, SUITE, {("openssl", HERE)})
    assert [(finding.names, finding.fixed) for finding in findings] == ([(("CVE-2026-1",), NEWER)] if with_fix else [])
    assert bool(of_debian.find_in_debian(unfixed, SUITE, {("openssl", HERE)})) is still_open


@pytest.mark.parametrize(
    "release",
    [
        {"status": "resolved", "fixed_version": "0", "urgency": "high"},
        {"status": "resolved", "fixed_version": OLDER, "urgency": "high"},
        {"status": "resolved", "fixed_version": HERE, "urgency": "high"},
        {"status": "undetermined", "urgency": "high"},
        {"status": "resolved", "urgency": "high"},
    ],
)
def test_what_is_mended_or_was_never_there_does_not_count(release: dict[str, str]) -> None:
    version = "3.0.16-1" if release.get("fixed_version") == OLDER else HERE

    assert of_debian.find_in_debian(tracker(**release), SUITE, {("openssl", version), ("zlib", "1")}) == []


def test_another_suite_says_nothing_of_this_one() -> None:
    known = tracker(status="resolved", fixed_version="0")
    known["zlib"] = {"CVE-2026-2": {"releases": {"sid": {"status": "open", "urgency": "high"}}}}

    assert of_debian.find_in_debian(known, SUITE, {("zlib", "0.1")}) == []


@pytest.mark.parametrize(
    ("known", "fact"),
    [
        ({}, "knows nothing of this suite"),
        ({"zlib": {}}, "knows nothing of this suite"),
        ({"openssl": ["CVE-2026-1"]}, "another form"),
        ({"openssl": {"CVE-2026-1": {}}}, "another form"),
        ({"openssl": {"CVE-2026-1": {"releases": {SUITE: {"status": 1}}}}}, "another form"),
    ],
)
def test_silence_is_no_good_news(known: dict[str, Any], fact: str) -> None:
    with pytest.raises(WorldFault) as caught:
        of_debian.find_in_debian(known, SUITE, {("openssl", HERE)})

    assert fact in caught.value.fact


def vulnerability(name: str, *aliases: str, fixed: tuple[str, ...] = ()) -> dict[str, object]:
    return {"id": name, "aliases": [*aliases], "fix_versions": [*fixed]}


REPORT = {"dependencies": [
    {"name": "six", "version": "1.0", "vulns": []},
    {"name": "torch", "version": "2.13.0", "vulns": [vulnerability("GHSA-1", "PYSEC-2", "CVE-3", fixed=("2.14", "3"))]},
    {"name": "torch", "version": "2.13.0", "vulns": [vulnerability("GHSA-4")]},
]}  # fmt: skip


@pytest.mark.parametrize("out", [json.dumps(REPORT), "", "{}", "[]", '{"dependencies": [{"vulns": 1}]}'])
def test_python_packages_are_asked_for_without_their_local_versions(monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    asked = list[str]()

    def run(command: list[str], environ: dict[str, str], remedy: str) -> process.Result:
        asked.append(Path(command[command.index("-r") + 1]).read_text())
        assert command[command.index("--osv-url") + 1] == "https://osv" and environ == {"A": "1"}
        return process.Result(1, out, "cannot reach it")

    monkeypatch.setattr(process, "run", run)
    if out.startswith('{"dependencies": [{"name"'):
        assert of_python.find_in_python(locks.lock(), "https://osv", {"A": "1"}) == [
            Finding("torch", "2.13.0", ("GHSA-1", "CVE-3", "PYSEC-2"), "2.14"),
            Finding("torch", "2.13.0", ("GHSA-4",), None),
        ]
    else:
        with pytest.raises(WorldFault, match="cannot ask for advisories") as caught:
            of_python.find_in_python(locks.lock(), "https://osv", {"A": "1"})
        assert "cannot reach it" in caught.value.value
    assert asked == ["torch==2.13.0\ntransformers==5.23.0\n"]


@pytest.mark.parametrize(
    ("of_debian_found", "of_python_found", "rows", "code", "out", "err"),
    [
        ([], [], "", 0, "nothing counts against 2 Python packages, 1 sources of Debian bookworm (0 allowed)", ""),
        ([OPENSSL], [], ROW, 0, "(1 allowed)", ""),
        ([], [], ROW, 0, "(0 allowed)", "nothing needs this row any more: CVE-2026-1 of openssl"),
        ([OPENSSL], [], "", 1, OPENSSL.line, "packages have known vulnerabilities: openssl"),
        ([OPENSSL], [Finding("a", "1", ("X",), None)], ROW, 1, "a 1", "packages have known vulnerabilities: a\n"),
    ],
)
def test_an_audit_fails_where_something_counts_that_is_not_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    of_debian_found: list[Finding], of_python_found: list[Finding], rows: str, code: int, out: str, err: str,
) -> None:  # fmt: skip
    (tmp_path / "lock").write_text(lockfile.format_lock(locks.lock(), with_origin=True))
    monkeypatch.setattr(of_debian, "list_sources", lambda *_: {("tini", "0.19")})
    monkeypatch.setattr(of_debian, "read_tracker", lambda url, _: url)
    monkeypatch.setattr(of_debian, "find_in_debian", lambda url, suite, used: list(of_debian_found))
    monkeypatch.setattr(of_python, "find_in_python", lambda *_: of_python_found)
    monkeypatch.setattr(program, "context", lambda *_: replace(locks.context(Store(tmp_path), None, {}), today=DAY))
    words = [str(tmp_path / "lock"), "--allow", str(write(tmp_path, rows))]

    assert audit.main(words, {"HOME": str(tmp_path)}) == code
    said = capsys.readouterr()
    assert out in said.out and err in said.err and bool(said.err) is bool(err)
    assert audit.main([str(tmp_path / "none")], {"HOME": str(tmp_path)}) == 2
    assert "there is no such lock" in capsys.readouterr().err


def test_an_image_without_packages_of_debian_is_not_looked_for_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lock").write_text(lockfile.format_lock(locks.lock(), with_origin=True))
    monkeypatch.setattr(of_debian, "list_sources", lambda *_: set())
    monkeypatch.delattr(of_debian, "read_tracker")
    monkeypatch.setattr(of_python, "find_in_python", lambda *_: [])
    monkeypatch.setattr(program, "context", lambda *_: replace(locks.context(Store(tmp_path), None, {}), today=DAY))

    assert audit.main([str(tmp_path / "lock"), "--allow", str(write(tmp_path, ""))], {"HOME": str(tmp_path)}) == 0
