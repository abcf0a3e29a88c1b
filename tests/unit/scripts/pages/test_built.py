"""The record of images that were built, and what the page makes of it."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest

from images.base.base import BaseImage
from images.oci.descriptors import Descriptor
from images.oci.manifest import Manifest
from scripts.pages import built, tables
from scripts.pages.built import Built
from tests.support.locks import lock

DAY = datetime.date(2026, 11, 26)
SAID = {"size": 7, "digest": f"sha256:{'a' * 64}", "tags": ["multinode:a"]}
ONE = built.of(lock(), SAID, DAY, "c" * 40)
OTHER = f"sha256:{'b' * 64}"
LATER = datetime.date(2026, 12, 1)


def test_a_base_that_was_made_here_is_named_by_its_suite() -> None:
    pulled = BaseImage(Manifest(OTHER, Descriptor("", OTHER, 1), ()), (), "intel/a:1")

    assert (ONE.base, ONE.size, ONE.digest, ONE.examples) == ("bookworm", 7, SAID["digest"], False)
    assert built.of(lock(base="intel", base_image=pulled), SAID, DAY, "").base == "intel"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(dataclasses.replace(ONE, day=LATER), [ONE], id="the same image again"),
        pytest.param(dataclasses.replace(ONE, digest=OTHER, day=LATER), ["new"], id="of newer packages"),
        pytest.param(dataclasses.replace(ONE, digest=OTHER, torch="2.9.0"), [ONE, "new"], id="of an older torch"),
        pytest.param(dataclasses.replace(ONE, digest=OTHER, torch="2.14.0"), ["new", ONE], id="of a newer torch"),
        pytest.param(dataclasses.replace(ONE, digest=OTHER, base="trixie"), ["new", ONE], id="on another base"),
    ],
)
def test_an_image_takes_the_place_of_an_older_one_of_the_same(new: Built, expected: list[object]) -> None:
    assert built.add([ONE], new) == [new if each == "new" else each for each in expected]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = tmp_path / "images.json"
    place.write_text(built.text([ONE]))

    assert built.read(place) == [ONE]


def rows_on(day: datetime.date | None) -> dict[str, str]:
    return dict(line.strip("| ").split(" | ") for line in tables.ends(day)[2:])


def test_a_line_is_over_when_the_next_one_is_there() -> None:
    assert rows_on(None)["torch 2.13"] == "2.14.0 is newer, since 2026-09-02"


@pytest.mark.parametrize(
    ("day", "bookworm"),
    [
        ("2026-07-11", "mended by its security team until 2026-07-11, then LTS until 2028-06-30"),
        ("2026-07-12", "mended by LTS until 2028-06-30, no more by its security team (until 2026-07-11)"),
        ("2028-06-30", "mended by LTS until 2028-06-30, no more by its security team (until 2026-07-11)"),
        ("2028-07-01", "mended by nobody since 2028-06-30"),
    ],
)
def test_who_mends_a_suite_is_said_as_of_a_day(day: str, bookworm: str) -> None:
    found = rows_on(datetime.date.fromisoformat(day))

    assert found["Debian bookworm, of 2023-06-10"] == bookworm
    assert (
        found["Debian trixie, of 2025-08-09"]
        == "mended by its security team until 2028-08-09, then LTS until 2030-06-30"
    )
