"""What Debian's security tracker says of a source package -> what ends the audit."""

from __future__ import annotations

from typing import Any

import pytest

from images.host.errors import WorldFault
from scripts.audit import of_debian

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

    found = of_debian.find_in_debian(fixed, SUITE, {("openssl", HERE)})
    assert [(each.names, each.fixed) for each in found] == ([(("CVE-2026-1",), NEWER)] if with_fix else [])
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
