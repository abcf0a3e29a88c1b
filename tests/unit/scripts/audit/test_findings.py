"""The list of what may stay: what its rows cover, until when, and what is refused."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from images.host.errors import UserFault
from scripts.audit.__main__ import ALLOWED
from scripts.audit.findings import Finding, read_allowed, without_allowed

DAY = datetime.date(2026, 11, 26)
ROW = """
[[allow]]
id = "CVE-2026-1"
package = "openssl"
reason = "only of a server"
until = 2026-11-26
"""
FOUND = Finding("openssl", "3.0", ("DSA-1", "CVE-2026-1"), None)


def write(place: Path, text: str) -> Path:
    place = place / "allowed.toml"
    place.write_text(text)
    return place


@pytest.mark.parametrize(
    ("finding", "covered"),
    [
        (FOUND, True),
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
